"""Photographs restored as in Real-ESRGAN: blurred, shrunk, and compressed by PIL; the cause is a loader of two workers.

The fix has twelve.
"""
# causes: idle
import io

import numpy as np
import torch
from parts import DEVICE, repeat, update, use_gpu
from PIL import Image, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, PHOTOS, WHOLE, SIZE, SCALE, WIDTH, BLOCKS = 12, 8, 512, 256, 4, 128, 20


class Photos(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Parts of photographs, each with a small and bad copy of itself."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        coarse = draw.integers(0, 256, (PHOTOS, 32, 32, 3), np.uint8)
        self.photos = [Image.fromarray(each).resize((WHOLE, WHOLE)) for each in coarse]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        draw = np.random.default_rng(index)
        left, top = (int(place) for place in draw.integers(0, WHOLE - SIZE, 2))
        part = self.photos[index % PHOTOS].crop((left, top, left + SIZE, top + SIZE))
        bad = spoil(spoil(part, SIZE // 2, draw), SIZE // SCALE, draw)
        return as_tensor(bad), as_tensor(part)


def spoil(image: Image.Image, size: int, draw: np.random.Generator) -> Image.Image:
    """The image blurred, noisy, of another size, and after JPEG."""
    image = image.filter(ImageFilter.GaussianBlur(draw.uniform(0.2, 3.0)))
    noisy = np.asarray(image) + draw.normal(0, draw.uniform(1, 20), (*image.size[::-1], 3))
    image = Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).resize((size, size))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=int(draw.integers(30, 95)))
    return Image.open(file).convert("RGB")


def as_tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.first(x).relu())


def make_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1), *(Block() for _ in range(BLOCKS)),
        nn.Conv2d(WIDTH, 3 * SCALE**2, 3, padding=1), nn.PixelShuffle(SCALE),
    )  # fmt: skip


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_network().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    few, many = (
        repeat(DataLoader(Photos(), BATCH, num_workers=workers, pin_memory=True))
        for workers in (2, 12)
    )
    while turns.step():
        bad, good = (
            each.to(DEVICE, non_blocking=True) for each in next(few if turns.planted else many)
        )
        with torch.autocast("cuda", dtype=torch.bfloat16):
            restored = model(bad.contiguous(memory_format=torch.channels_last))
        update(optimizer, nn.functional.l1_loss(restored.float(), good))
