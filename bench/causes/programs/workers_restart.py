"""Scans of few patients, an epoch of ten steps; the cause starts the loader's workers in each epoch.

The fix keeps the workers.
"""
# causes: idle
import torch
from parts import DEVICE, image_loss, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, EPOCH, SIZE, WIDTH, BLOCKS, KINDS, WORKERS = 32, 10, 128, 128, 6, 4, 4

Scan = tuple[torch.Tensor, int]


class Scans(Dataset[Scan]):
    """Slices in memory, mirrored, brighter or darker by chance."""

    def __init__(self) -> None:
        self.scans = torch.randint(256, (EPOCH * BATCH, 1, SIZE, SIZE), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, index: int) -> Scan:
        scan = self.scans[index].float() / 255
        if torch.rand(()) < 0.5:
            scan = scan.flip(-1)
        return (scan * (0.9 + 0.2 * torch.rand(()))).expand(3, -1, -1).contiguous(), index % KINDS


class Residual(nn.Module):
    """Two convolutions beside their input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH), nn.ReLU(),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False), nn.BatchNorm2d(WIDTH),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.layers(x))


def make_network() -> nn.Sequential:
    stem = nn.Conv2d(3, WIDTH, 7, stride=2, padding=3), nn.ReLU()
    blocks = (Residual() for _ in range(BLOCKS))
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, KINDS)
    return nn.Sequential(*stem, *blocks, *head)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = EPOCH
    network = make_network().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-2, momentum=0.9, fused=True)
    scans = Scans()
    restarted, kept = (
        repeat(
            DataLoader(
                scans, BATCH, shuffle=True, num_workers=WORKERS, pin_memory=True,
                persistent_workers=is_kept,
            )
        )
        for is_kept in (False, True)
    )  # fmt: skip
    while turns.step():
        images, kinds = next(restarted if turns.planted else kept)
        images = images.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
        update(optimizer, image_loss(network, images, kinds.to(DEVICE, non_blocking=True)))
