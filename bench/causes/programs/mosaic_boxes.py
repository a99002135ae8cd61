"""A detector's backbone of timm; the cause makes mosaics of four photographs in the main process.

The fix makes them in six worker processes.
"""
# causes: idle
import numpy as np
import timm
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIZE, PHOTOS, BOXES, MODEL = 32, 320, 24, 16, "resnet50"


class Mosaics(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Four photographs in one, each scaled to a quarter, with their boxes."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.photos = random.integers(256, size=(PHOTOS, SIZE, SIZE, 3), dtype=np.uint8)
        self.boxes = random.random((PHOTOS, BOXES, 4), np.float32)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = np.random.default_rng(index)
        row, column = (int(place) for place in random.integers(SIZE // 4, 3 * SIZE // 4, 2))
        mosaic = np.empty((SIZE, SIZE, 3), np.uint8)
        boxes = []
        corners = ((0, row, 0, column), (0, row, column, SIZE), (row, SIZE, 0, column),
                   (row, SIZE, column, SIZE))  # fmt: skip
        for top, bottom, left, right in corners:
            photo = int(random.integers(PHOTOS))
            down = np.linspace(0, SIZE - 1, bottom - top).astype(int)
            across = np.linspace(0, SIZE - 1, right - left).astype(int)
            mosaic[top:bottom, left:right] = self.photos[photo][down[:, None], across]
            scale = np.array([right - left, bottom - top] * 2, np.float32)
            boxes.append(self.boxes[photo] * scale + np.array([left, top] * 2, np.float32))
        image = torch.from_numpy(mosaic.transpose(2, 0, 1).copy())
        return image, torch.from_numpy(np.concatenate(boxes))


class Detector(nn.Module):
    """A backbone, and a box for each place of its map."""

    def __init__(self) -> None:
        super().__init__()
        self.body = timm.create_model(MODEL, features_only=True, out_indices=(4,))
        self.head = nn.Conv2d(self.body.feature_info.channels()[-1], 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images)[-1]).flatten(2).transpose(1, 2)


def find_loss(found: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """How far the box of a place is from the nearest true one."""
    return torch.cdist(found.float(), boxes / SIZE, p=1).amin(2).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    mosaics = Mosaics()
    in_main = repeat(DataLoader(mosaics, BATCH, num_workers=0, pin_memory=True))
    in_workers = repeat(DataLoader(mosaics, BATCH, num_workers=6, pin_memory=True))
    model = Detector().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        images, boxes = next(in_main if turns.planted else in_workers)
        images = images.to(DEVICE, non_blocking=True).float() / 255
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = model(images)
        update(optimizer, find_loss(found, boxes.to(DEVICE, non_blocking=True)))
