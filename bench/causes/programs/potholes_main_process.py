"""A RegNet finds potholes; the cause is a DataLoader without workers, which augments in the loop.

The fix gives the same loader four workers and pinned batches.
"""

# causes: idle
import torch
import torchvision
from parts import DEVICE, image_loss, repeat, update, use_gpu
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2
from turns import Turns

BATCH, STORED, SIZE, PICTURES, CLASSES = 64, 256, 224, 512, 8


class Roads(Dataset[tuple[torch.Tensor, int]]):
    """Decoded pictures in memory, each cut and coloured anew when it is drawn."""

    def __init__(self) -> None:
        self.pictures = torch.randint(256, (PICTURES, 3, STORED, STORED), dtype=torch.uint8)
        self.change = v2.Compose(
            [
                v2.RandomResizedCrop(SIZE, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ColorJitter(0.3, 0.3, 0.3),
            ]
        )

    def __len__(self) -> int:
        return 1000 * PICTURES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.change(self.pictures[index % PICTURES]), index % CLASSES


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.regnet_y_3_2gf(num_classes=CLASSES).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    roads = Roads()
    alone = repeat(DataLoader(roads, BATCH, shuffle=True))
    workers = DataLoader(
        roads, BATCH, shuffle=True, num_workers=4, pin_memory=True, prefetch_factor=1
    )
    helped = repeat(workers)
    while turns.step():
        pictures, labels = next(alone if turns.planted else helped)
        pictures = pictures.to(DEVICE, non_blocking=True).float() / 255
        loss = image_loss(model, pictures, labels.to(DEVICE, non_blocking=True))
        update(optimizer, loss)
