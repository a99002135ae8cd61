"""Minerals told from hyperspectral images with Accelerate; the cause is a loader without `pin_memory`.

Accelerate copies with `non_blocking=True`, which does nothing for pageable memory.
"""
# causes: pageable_copy
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from parts import repeat, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, BANDS, SIDE, WIDTH, BLOCKS, MINERALS, STORED, WORKERS = 48, 96, 64, 256, 8, 24, 48, 6


class Cubes(Dataset[tuple[torch.Tensor, int]]):
    """Images of many bands of light, in memory."""

    def __init__(self) -> None:
        self.cubes = torch.rand(STORED, BANDS, SIDE, SIDE)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.cubes[index % STORED], index % MINERALS


class Block(nn.Module):
    """Two convolutions beside their input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(True),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.layers(x))


def make_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(BANDS, WIDTH, 1), nn.ReLU(True), *(Block() for _ in range(BLOCKS)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, MINERALS),
    )  # fmt: skip


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(
        mixed_precision="bf16", dataloader_config=DataLoaderConfiguration(non_blocking=True)
    )
    model = make_network().to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pageable, pinned = (
        DataLoader(Cubes(), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=is_pinned)
        for is_pinned in (False, True)
    )
    model, optimizer, pageable, pinned = accelerator.prepare(model, optimizer, pageable, pinned)
    criterion = nn.CrossEntropyLoss()
    from_pageable, from_pinned = repeat(pageable), repeat(pinned)
    while turns.step():
        cubes, minerals = next(from_pageable if turns.planted else from_pinned)
        cubes = cubes.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad()
        accelerator.backward(criterion(model(cubes), minerals))
        optimizer.step()
