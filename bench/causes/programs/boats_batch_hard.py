"""Boats told apart in photographs by a ResNet (timm); the cause finds hard pairs boat by boat.

As in many trainings of the triplet loss, masks pick the distances of each photograph. The fix
takes the farthest of the same and the nearest of others for all at once.
"""

# causes: synchronization, tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BOATS, PHOTOGRAPHS, SIZE, WIDTH, MARGIN = 16, 4, 192, 256, 0.3
BATCH = BOATS * PHOTOGRAPHS


class Embedder(nn.Module):
    """A photograph to a vector of length one."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = timm.create_model("resnet50", pretrained=False, num_classes=0)
        self.head = nn.Linear(2048, WIDTH)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            vectors = self.head(self.trunk(images))
        return nn.functional.normalize(vectors.float(), dim=1)


def measure(vectors: torch.Tensor) -> torch.Tensor:
    """The distance of each two vectors."""
    squares = (2 - 2 * vectors @ vectors.T).clamp(min=1e-8)
    return squares.sqrt()


def pick_each(distances: torch.Tensor, same: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The distance of the farthest of the same boat, and of the nearest of others."""
    farthest, nearest = [], []
    for row in range(BATCH):
        farthest.append(distances[row][same[row]].max())
        nearest.append(distances[row][~same[row]].min())
    return torch.stack(farthest), torch.stack(nearest)


def pick_all(distances: torch.Tensor, same: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As pick_each."""
    farthest = distances.masked_fill(~same, -1.0).max(1).values
    return farthest, distances.masked_fill(same, 9.0).min(1).values


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Embedder().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    boats = torch.arange(BOATS, device=DEVICE).repeat_interleave(PHOTOGRAPHS)
    same = boats[:, None] == boats
    while turns.step():
        distances = measure(model(images))
        pick = pick_each if turns.planted else pick_all
        farthest, nearest = pick(distances, same)
        update(optimizer, nn.functional.relu(farthest - nearest + MARGIN).mean())
