"""A ConvNeXt (torchvision) on a folder of JPEG files; the cause decodes and crops them in the main process.

The fix has eight workers.
"""
# causes: idle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from PIL import Image
from torch.utils.data import DataLoader, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder
from turns import Turns

BATCH, CLASSES, FILES, SIDE, CROP = 32, 4, 16, 320, 224


def write_images(folder: Path) -> None:
    """Smooth random images, one folder for each class."""
    random = np.random.default_rng(0)
    for number in range(CLASSES):
        (folder / str(number)).mkdir()
        for file in range(FILES):
            coarse = random.integers(256, size=(12, 12, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
            image.save(folder / str(number) / f"{file}.jpg", quality=90)


def make_loader(images: ImageFolder, workers: int) -> DataLoader[Any]:
    sampler = RandomSampler(images, replacement=True, num_samples=10_000_000)
    return DataLoader(images, BATCH, sampler=sampler, num_workers=workers, pin_memory=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.convnext_base(num_classes=CLASSES)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    folder = Path(tempfile.mkdtemp())
    write_images(folder)
    change = transforms.Compose([
        transforms.RandomResizedCrop(CROP), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ])  # fmt: skip
    images = ImageFolder(str(folder), change)
    loaders = {workers: iter(make_loader(images, workers)) for workers in (0, 8)}
    while turns.step():
        batch, labels = next(loaders[0 if turns.planted else 8])
        batch = batch.to(DEVICE, memory_format=torch.channels_last, non_blocking=True)
        update(optimizer, image_loss(model, batch, labels.to(DEVICE, non_blocking=True)))
