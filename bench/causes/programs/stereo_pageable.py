"""Depth from pairs of images; the cause leaves the loader's batches in pageable memory.

The fix is the loader's `pin_memory`, with copies that do not block.
"""
# causes: pageable_copy
from typing import Any

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, HIGH, WIDE, WIDTH, SHIFTS, PAIRS = 8, 320, 960, 48, 24, 16


class Pairs(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Left and right images and the depth, ready in memory."""

    def __init__(self) -> None:
        self.images = torch.rand(PAIRS, 6, HIGH, WIDE)
        self.depths = torch.rand(PAIRS, 1, HIGH, WIDE)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index % PAIRS], self.depths[index % PAIRS]


def convolve(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    layer = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.ReLU())


class Stereo(nn.Module):
    """Compares features of both images at several shifts."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            convolve(3, WIDTH, 2), convolve(WIDTH, WIDTH), convolve(WIDTH, 2 * WIDTH, 2),
            convolve(2 * WIDTH, 2 * WIDTH), convolve(2 * WIDTH, 2 * WIDTH),
        )  # fmt: skip
        self.match = nn.Sequential(
            convolve(SHIFTS, 2 * WIDTH), *(convolve(2 * WIDTH, 2 * WIDTH) for _ in range(4)),
            nn.Conv2d(2 * WIDTH, 16, 1), nn.PixelShuffle(4),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        left, right = self.features(torch.cat(images.split(3, 1))).chunk(2)
        alike = [(left * right.roll(shift, -1)).mean(1) for shift in range(SHIFTS)]
        return self.match(torch.stack(alike, 1))


def make_loader(*, is_pinned: bool) -> DataLoader[Any]:
    return DataLoader(Pairs(), BATCH, num_workers=6, pin_memory=is_pinned, prefetch_factor=2)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Stereo().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    loaders = {is_pinned: iter(make_loader(is_pinned=is_pinned)) for is_pinned in (False, True)}
    while turns.step():
        is_pinned = not turns.planted
        images, depths = next(loaders[is_pinned])
        images = images.to(DEVICE, non_blocking=is_pinned)
        depths = depths.to(DEVICE, non_blocking=is_pinned)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(images)
        update(optimizer, nn.functional.smooth_l1_loss(found.float(), depths))
