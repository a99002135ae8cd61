"""Goods on shelves found in photographs (torchvision); the cause drops overlapping boxes kind by kind and photograph by photograph.

Each call has a boolean mask and a number of boxes that the host waits for. The fix is one call of
`batched_nms` for all.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from torchvision.ops import batched_nms, nms
from turns import Turns

PHOTOS, SIZE, KINDS, BOXES, OVERLAP, BATCHES = 8, 1024, 24, 500, 0.5, 2

Found = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Detector(nn.Module):
    """ResNet-50 and a head of boxes at each place of a map an eighth as large."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*list(torchvision.models.resnet50().children())[:-2])
        self.grow = nn.Sequential(nn.Conv2d(2048, 16 * 64, 1), nn.PixelShuffle(4), nn.ReLU())
        self.head = nn.Conv2d(64, 4 + KINDS, 3, padding=1)

    def forward(self, photos: torch.Tensor) -> Found:
        """Corners, scores and kinds of each photograph's best boxes."""
        raw = self.head(self.grow(self.body(photos))).float()
        columns = raw.shape[-1]
        score, kind = raw[:, 4:].flatten(2).max(1)
        score, best = score.topk(BOXES)
        places = best[:, None].expand(-1, 4, -1)
        shifts = raw[:, :4].flatten(2).gather(2, places).transpose(1, 2)
        middle = torch.stack([best % columns, best // columns], -1) + shifts[..., :2].tanh()
        sides = 2 + 6 * shifts[..., 2:].sigmoid()
        corners = torch.cat([middle - sides / 2, middle + sides / 2], -1) * (SIZE / columns)
        return corners.clamp(0, SIZE), score, kind.gather(1, best)


def drop_by_kinds(corners: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """Numbers of the boxes that are kept, in order."""
    kept = []
    for photo in range(PHOTOS):
        for kind in range(KINDS):
            chosen = (kinds[photo] == kind).nonzero()[:, 0]
            some = nms(corners[photo][chosen], scores[photo][chosen], OVERLAP)
            kept.append(chosen[some] + photo * BOXES)
    return torch.cat(kept).sort().values


def drop_at_once(corners: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """As `drop_by_kinds`: boxes of other groups never overlap."""
    groups = kinds + KINDS * torch.arange(PHOTOS, device=DEVICE)[:, None]
    kept = batched_nms(corners.flatten(0, 1), scores.flatten(), groups.flatten(), OVERLAP)
    return kept.sort().values


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Detector().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    batches = torch.rand(BATCHES, PHOTOS, 3, SIZE, SIZE, device=DEVICE).to(torch.bfloat16)
    steps, goods = 0, 0
    while turns.step():
        photos = batches[steps % BATCHES].contiguous(memory_format=torch.channels_last)
        drop = drop_by_kinds if turns.planted else drop_at_once
        goods += len(drop(*model(photos)))
        steps += 1
