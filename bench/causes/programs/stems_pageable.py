"""Instruments of songs taken apart (as Demucs); the cause is a loader that does not pin its batches, as by default.

The fix is `pin_memory`, with copies that do not block.
"""
# causes: pageable_copy
from typing import Any

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, STEMS, CHANNELS, SAMPLES, SONGS, WIDTH, LEVELS = 12, 4, 2, 131_072, 24, 128, 4


class Songs(Dataset[torch.Tensor]):
    """The instruments of pieces of songs, ready in memory."""

    def __init__(self) -> None:
        self.stems = torch.rand(SONGS, STEMS, CHANNELS, SAMPLES)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.stems[index % SONGS]


def encode(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 8, 4, padding=2), nn.ReLU(),
        nn.Conv1d(outputs, 2 * outputs, 3, padding=1), nn.GLU(1),
    )  # fmt: skip


def decode(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, 2 * inputs, 3, padding=1), nn.GLU(1),
        nn.ConvTranspose1d(inputs, outputs, 8, 4, padding=2),
    )  # fmt: skip


class Separator(nn.Module):
    """A U-Net of waves: a song to its instruments."""

    def __init__(self) -> None:
        super().__init__()
        widths = [CHANNELS, *(WIDTH * 2**level for level in range(LEVELS))]
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        self.down = nn.ModuleList(encode(*pair) for pair in pairs)
        self.up = nn.ModuleList(decode(b, a if level else STEMS * CHANNELS) for level, (a, b) in enumerate(pairs))

    def forward(self, song: torch.Tensor) -> torch.Tensor:
        kept = [song]
        for block in self.down:
            kept.append(block(kept[-1]))
        x = kept.pop()
        for block in reversed(self.up):
            x = block(x)
            x = x + kept.pop() if len(kept) > 1 else x
        return x.unflatten(1, (STEMS, CHANNELS))


def make_loader(*, is_pinned: bool) -> DataLoader[Any]:
    return DataLoader(Songs(), BATCH, num_workers=6, pin_memory=is_pinned)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Separator().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    loaders = {is_pinned: iter(make_loader(is_pinned=is_pinned)) for is_pinned in (False, True)}
    while turns.step():
        is_pinned = not turns.planted
        stems = next(loaders[is_pinned]).to(DEVICE, non_blocking=is_pinned)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(stems.sum(1))
        update(optimizer, nn.functional.l1_loss(found.float(), stems))
