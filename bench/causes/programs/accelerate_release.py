"""Findings in X-rays told by a ResNeXt (torchvision) with Accelerate; the cause is `release_memory` in each update.

It collects garbage and empties the allocator's cache, against a lack of memory that is not there.
"""
# causes: allocation, idle
import torch
import torchvision
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import release_memory
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIDE, FINDINGS, STORED, PARTS = 32, 224, 14, 64, 2


class Rays(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Pictures in memory, ready."""

    def __init__(self) -> None:
        self.pictures = torch.rand(STORED, 3, SIDE, SIDE)
        self.findings = (torch.rand(STORED, FINDINGS) < 0.1).float()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.pictures[index % STORED], self.findings[index % STORED]


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(
        mixed_precision="bf16", dataloader_config=DataLoaderConfiguration(non_blocking=True)
    )
    model = torchvision.models.resnext50_32x4d(num_classes=FINDINGS)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(Rays(), BATCH, num_workers=8, pin_memory=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = nn.BCEWithLogitsLoss()
    batches = iter(loader)
    while turns.step():
        for _ in range(PARTS):
            pictures, findings = next(batches)
            pictures = pictures.contiguous(memory_format=torch.channels_last)
            logits = model(pictures)
            loss = criterion(logits, findings) / PARTS
            accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if turns.planted:
            pictures, findings, logits, loss = release_memory(pictures, findings, logits, loss)
