"""Outlines of pets in photographs (torchvision); the cause is a loader without workers, as by default.

The fix gives it eight. Both pin its batches and copy them without waiting.
"""
# causes: idle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from parts import DEVICE, repeat, update, use_gpu
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import tv_tensors
from torchvision.models.segmentation import deeplabv3_resnet50
from torchvision.transforms import v2
from turns import Turns

PHOTOS, BATCH, CROP, CLASSES = 64, 8, 384, 3


def write_photos(folder: Path) -> None:
    """Photographs as JPEG, and the outline of the pet in each as PNG."""
    random = np.random.default_rng(0)
    for number in range(PHOTOS):
        coarse = random.integers(256, size=(24, 32, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((500, 375)).save(folder / f"{number}.jpg", quality=92)
        parts = random.integers(CLASSES, size=(12, 16), dtype=np.uint8)
        Image.fromarray(parts).resize((500, 375), Image.Resampling.NEAREST).save(folder / f"{number}.png")


class Pets(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Photographs and outlines, cropped and mirrored together."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.change = v2.Compose([
            v2.RandomResizedCrop(CROP, scale=(0.3, 1.0)), v2.RandomHorizontalFlip(), v2.ToImage(),
            v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64}, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ])  # fmt: skip

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        photo = Image.open(self.folder / f"{index % PHOTOS}.jpg").convert("RGB")
        outline = tv_tensors.Mask(np.array(Image.open(self.folder / f"{index % PHOTOS}.png")))
        image, mask = self.change(photo, outline)
        return image.as_subclass(torch.Tensor), mask.as_subclass(torch.Tensor)


def make_loader(pets: Pets, workers: int) -> DataLoader[Any]:
    return DataLoader(pets, BATCH, shuffle=True, num_workers=workers, pin_memory=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    folder = tempfile.TemporaryDirectory()
    write_photos(Path(folder.name))
    model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=CLASSES)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    pets = Pets(Path(folder.name))
    alone, helped = (repeat(make_loader(pets, workers)) for workers in (0, 8))
    while turns.step():
        images, masks = next(alone if turns.planted else helped)
        images, masks = (each.to(DEVICE, non_blocking=True) for each in (images, masks))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(images)["out"]
        update(optimizer, nn.functional.cross_entropy(scores.float(), masks))
