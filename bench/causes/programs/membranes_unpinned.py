"""Membranes of neurons in electron microscopy, by a U-Net; the cause is a batch that cannot be pinned.

The loader has `pin_memory=True`, but leaves a batch of a class of its own as it is, unless that has
a method `pin_memory`. The fix has one.
"""
# causes: pageable_copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIDE, STORED, WIDTHS, WORKERS = 12, 512, 24, (32, 64, 128, 256), 8


@dataclass
class Batch:
    """Slices, and whether each pixel belongs to the same neuron as its neighbours."""

    slices: torch.Tensor
    affinities: torch.Tensor

    def to(self, device: str) -> "Batch":
        return Batch(
            self.slices.to(device, non_blocking=True), self.affinities.to(device, non_blocking=True)
        )


class PinnedBatch(Batch):
    """The same, for the loader's thread that pins."""

    def pin_memory(self) -> "PinnedBatch":
        self.slices, self.affinities = self.slices.pin_memory(), self.affinities.pin_memory()
        return self


class Slices(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Slices of a volume, mirrored by chance."""

    def __init__(self) -> None:
        self.slices = torch.rand(STORED, 1, SIDE, SIDE)
        self.affinities = (torch.rand(STORED, 2, SIDE, SIDE) < 0.9).float()

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        number = index % STORED
        image, affinity = self.slices[number], self.affinities[number]
        return (image.flip(-2), affinity.flip(-2)) if index % 3 == 0 else (image, affinity)


class Collate:
    """Makes a batch of one of the two classes."""

    def __init__(self, kind: type[Batch]) -> None:
        self.kind = kind

    def __call__(self, samples: list[tuple[torch.Tensor, torch.Tensor]]) -> Batch:
        slices, affinities = zip(*samples)
        return self.kind(torch.stack(slices), torch.stack(affinities))


def make_layers(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
        nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
    )  # fmt: skip


class UNet(nn.Module):
    """Four sizes, joined by skips."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            make_layers(inputs, width) for inputs, width in zip((1, *WIDTHS), WIDTHS)
        )
        pairs = list(zip(WIDTHS[1:], WIDTHS))[::-1]
        self.grow = nn.ModuleList(nn.ConvTranspose2d(deep, width, 2, 2) for deep, width in pairs)
        self.up = nn.ModuleList(make_layers(2 * width, width) for _, width in pairs)
        self.head = nn.Conv2d(WIDTHS[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level, layers in enumerate(self.down):
            x = layers(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for grow, layers in zip(self.grow, self.up):
            x = layers(torch.cat([kept.pop(), grow(x)], 1))
        return self.head(x)


def load(kind: type[Batch]) -> Iterator[Batch]:
    return repeat(
        DataLoader(
            Slices(), BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True,
            collate_fn=Collate(kind),
        )
    )  # fmt: skip


def run(turns: Turns) -> None:
    use_gpu(turns)
    unpinned, pinned = load(Batch), load(PinnedBatch)
    model = UNet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    while turns.step():
        batch = next(unpinned if turns.planted else pinned).to(DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(batch.slices.contiguous(memory_format=torch.channels_last))
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), batch.affinities)
        update(optimizer, loss)
