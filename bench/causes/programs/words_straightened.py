"""Words of scanned pages found, straightened and read; the cause sends the matrix of each word to the GPU by itself.

`torch.tensor(matrix, device="cuda")` copies 24 bytes, and waits. The fix makes one tensor of all
matrices. The words are cut and read in batches in both.
"""
# causes: many_small_copies, synchronization, host_bound
import math

import torch
import torch.nn.functional as F
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

PAGES, HEIGHT, WIDE, WORDS, TALL, LONG, LETTERS, BATCHES = 8, 1024, 768, 80, 32, 128, 800, 2

Matrix = list[list[float]]


class Finder(nn.Module):
    """ResNet-50; the words at the best places of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*list(torchvision.models.resnet50().children())[:-2])
        self.head = nn.Conv2d(2048, 4, 1)

    def forward(self, pages: torch.Tensor) -> torch.Tensor:
        """Words (page, word, 5): x and y of the middle, width and height in pages, and angle."""
        raw = self.head(self.body(pages)).float()
        rows, columns = raw.shape[2:]
        score, wide, high, angle = raw.flatten(2).unbind(1)
        best = score.topk(WORDS).indices
        wide, high, angle = (part.gather(1, best) for part in (wide, high, angle))
        middle = [(best % columns + 0.5) / columns, (best // columns + 0.5) / rows]
        sizes = [0.05 + 0.1 * wide.sigmoid(), 0.01 + 0.02 * high.sigmoid(), 0.2 * angle.tanh()]
        return torch.stack(middle + sizes, -1)


def find_matrix(x: float, y: float, wide: float, high: float, angle: float) -> Matrix:
    """Where a straightened word's pixels lie on its page, as `affine_grid` takes it."""
    cos, sin, ratio = math.cos(angle), math.sin(angle), HEIGHT / WIDE
    return [
        [wide * cos, -high * sin * ratio, 2 * x - 1],
        [wide * sin / ratio, high * cos, 2 * y - 1],
    ]


def send_matrices(words: list[list[float]], planted: bool) -> torch.Tensor:
    """The matrices of a page's words on the GPU."""
    matrices = [find_matrix(*word) for word in words]
    if planted:
        return torch.stack([torch.tensor(matrix, device=DEVICE) for matrix in matrices])
    return torch.tensor(matrices, device=DEVICE)


def cut(page: torch.Tensor, matrices: torch.Tensor) -> torch.Tensor:
    """Straightened words (word, colour, row, column)."""
    grid = F.affine_grid(matrices, [len(matrices), 3, TALL, LONG], align_corners=False)
    pages = page.expand(len(matrices), -1, -1, -1)
    return F.grid_sample(pages, grid, mode="bilinear", align_corners=False)


def make_reader() -> nn.Module:
    model = torchvision.models.resnet34(num_classes=LETTERS)
    return model.to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    finder = Finder().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    reader = make_reader()
    batches = torch.rand(BATCHES, PAGES, 3, HEIGHT, WIDE, device=DEVICE)
    steps, totals = 0, torch.zeros(LETTERS, device=DEVICE)
    while turns.step():
        pages = batches[steps % BATCHES]
        found = finder(pages.to(torch.bfloat16, memory_format=torch.channels_last)).tolist()
        crops = [
            cut(page, send_matrices(words, turns.planted))
            for page, words in zip(pages, found, strict=True)
        ]
        crops = torch.cat(crops).to(torch.bfloat16, memory_format=torch.channels_last)
        totals += reader(crops).float().sum(0)
        steps += 1
