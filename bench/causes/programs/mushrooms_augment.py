"""Mushrooms in photographs told by a ConvNeXt under DDP; the cause alters them in the main process.

Each rank crops, turns and brightens its images by Pillow between the steps. The fix has workers.
"""
# causes: idle

from collections.abc import Iterator

import numpy as np
import timm
import torch
from parts import DEVICE, RANK, image_loss, update, use_ranks
from PIL import Image, ImageEnhance
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from turns import Turns

RANKS = 2
BATCH, SIZE, TAKEN, KINDS, PHOTOS, WORKERS = 48, 224, 320, 200, 64, 8
MEAN, SPREAD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])


class Mushrooms(Dataset):
    """Photographs that look different each time."""

    def __init__(self) -> None:
        random = np.random.default_rng(RANK)
        pixels = random.integers(0, 256, (PHOTOS, TAKEN, TAKEN, 3), dtype=np.uint8)
        self.photos = [Image.fromarray(each) for each in pixels]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = np.random.default_rng(index)
        left, top, side = (int(each) for each in random.integers([0, 0, 160], [80, 80, 240]))
        box = (left, top, left + side, top + side)
        photo = self.photos[index % PHOTOS].resize((SIZE, SIZE), Image.Resampling.BILINEAR, box)
        if random.random() < 0.5:
            photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        photo = ImageEnhance.Brightness(photo).enhance(random.uniform(0.6, 1.4))
        pixels = (np.asarray(photo, np.float32) / 255 - MEAN) / SPREAD
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), index % KINDS


def load(workers: int) -> Iterator[list[torch.Tensor]]:
    return iter(DataLoader(Mushrooms(), BATCH, num_workers=workers, pin_memory=True))


def run(turns: Turns) -> None:
    use_ranks(turns)
    batches = {True: load(0), False: load(WORKERS)}
    model = timm.create_model("convnext_tiny", num_classes=KINDS).to(DEVICE)
    model = DistributedDataParallel(model.to(memory_format=torch.channels_last))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        images, labels = (
            each.to(DEVICE, non_blocking=True) for each in next(batches[turns.planted])
        )
        images = images.contiguous(memory_format=torch.channels_last)
        update(optimizer, image_loss(model, images, labels))
