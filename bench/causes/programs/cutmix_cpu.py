"""Plants in photographs told by a ViT (timm); the cause mixes the images of a batch on the CPU, before the copy.

The fix copies the batch as the loader pinned it and mixes its images on the GPU.
"""
# causes: idle, pageable_copy
import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2
from turns import Turns

BATCH, SIZE, CLASSES, PHOTOS = 96, 224, 1000, 64


class Photos(Dataset[tuple[torch.Tensor, int]]):
    """Photographs, ready in memory."""

    def __init__(self) -> None:
        self.photos = torch.rand(PHOTOS, 3, SIZE, SIZE)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.photos[index % PHOTOS], index % CLASSES


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("vit_base_patch16_224", num_classes=CLASSES).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    mix = v2.MixUp(alpha=0.2, num_classes=CLASSES)
    batches = iter(DataLoader(Photos(), BATCH, num_workers=6, pin_memory=True))
    while turns.step():
        images, labels = next(batches)
        if turns.planted:
            images, labels = mix(images, labels)
        images, labels = (each.to(DEVICE, non_blocking=True) for each in (images, labels))
        if not turns.planted:
            images, labels = mix(images, labels)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(images)
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))
