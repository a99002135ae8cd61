"""Nuclei found in slides, their masks stored as lengths of runs (as COCO has them); the cause finds the runs by NumPy.

All masks are copied to the host, and passed over one by one. The fix finds where runs begin on the
GPU, and copies those places.
"""
# causes: idle, pageable_copy
import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

TILES, SIZE, NUCLEI, PARTS, MASK, BATCHES = 24, 640, 8, 32, 256, 2


class Finder(nn.Module):
    """ResNet-50; a mask is a sum of its tile's parts, as in YOLACT."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*list(torchvision.models.resnet50().children())[:-2])
        self.parts = nn.Conv2d(2048, PARTS, 1)
        self.weights = nn.Linear(2048, NUCLEI * PARTS)

    def forward(self, tiles: torch.Tensor) -> torch.Tensor:
        """Masks (tile and nucleus, row, column)."""
        features = self.body(tiles)
        parts = self.parts(features).flatten(2)
        weights = self.weights(features.mean((2, 3))).view(len(tiles), NUCLEI, PARTS)
        raw = (weights @ parts).float()
        raw = (raw - raw.mean(-1, keepdim=True)).view(len(tiles), NUCLEI, *features.shape[2:])
        large = F.interpolate(raw, (MASK, MASK), mode="bilinear", align_corners=False)
        return (large > 0).flatten(0, 1)


def measure_runs(begins: np.ndarray) -> np.ndarray:
    """Lengths of the runs of a mask, column by column; the first is of pixels outside."""
    return np.diff(begins, prepend=0, append=MASK * MASK)


def find_runs_on_host(masks: torch.Tensor) -> list[np.ndarray]:
    """The runs of each mask, by NumPy."""
    runs = []
    for mask in masks.cpu().numpy():
        begins = np.flatnonzero(np.diff(mask.T.ravel(), prepend=False))
        runs.append(measure_runs(begins))
    return runs


def find_runs(masks: torch.Tensor) -> list[np.ndarray]:
    """The runs of each mask, found on the GPU."""
    pixels = F.pad(masks.transpose(1, 2).flatten(1).to(torch.uint8), (1, 0))
    places = (pixels[:, 1:] != pixels[:, :-1]).nonzero().cpu().numpy()
    bounds = np.searchsorted(places[:, 0], np.arange(1, len(masks)))
    return [measure_runs(begins) for begins in np.split(places[:, 1], bounds)]


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Finder().to(DEVICE, torch.bfloat16, memory_format=torch.channels_last).eval()
    batches = torch.rand(BATCHES, TILES, 3, SIZE, SIZE, device=DEVICE).to(torch.bfloat16)
    steps, stored = 0, 0
    while turns.step():
        tiles = batches[steps % BATCHES].contiguous(memory_format=torch.channels_last)
        masks = model(tiles)
        runs = find_runs_on_host(masks) if turns.planted else find_runs(masks)
        stored += sum(map(len, runs))
        steps += 1
