"""Plants in photographs under Lightning; the cause logs histograms of weights and gradients by NumPy.

They are written to a file in each tenth step. The fix counts on the GPU, and copies the counts.
"""
# causes: idle, pageable_copy
import json

import lightning_or_pytorch as lightning
import numpy as np
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import regnet_x_800mf
from turns import Turns

BATCH, SIDE, CLASSES, PERIOD, WORKERS, BINS, LIMIT = 160, 160, 200, 10, 6, 64, 1.0

Photo = tuple[torch.Tensor, int]


class Plants(Dataset[Photo]):
    """The same photographs again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.images = torch.randn(32, 3, SIDE, SIDE).half()

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> Photo:
        return self.images[index % 32], index * 7 % CLASSES


def count_on_host(arrays: list[torch.Tensor]) -> list[list[int]]:
    return [
        np.histogram(array.float().cpu().numpy(), BINS, (-LIMIT, LIMIT))[0].tolist()
        for array in arrays
    ]


def count_on_gpu(arrays: list[torch.Tensor]) -> list[list[int]]:
    return torch.stack([torch.histc(array, BINS, -LIMIT, LIMIT) for array in arrays]).tolist()


class Plant(lightning.LightningModule):
    """A RegNet and the log of its weights."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, regnet_x_800mf(num_classes=CLASSES)
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(images.float().to(memory_format=torch.channels_last))
        return nn.functional.cross_entropy(logits.float(), labels)

    def on_before_optimizer_step(self, _: torch.optim.Optimizer) -> None:
        if self.global_step % PERIOD:
            return
        arrays = [array.detach() for array in self.model.parameters()]
        arrays += [array.grad for array in self.model.parameters() if array.grad is not None]
        counts = count_on_host(arrays) if self.turns.planted else count_on_gpu(arrays)
        with open("/tmp/lightning_histograms.json", "a", encoding="utf-8") as log:  # noqa: PTH123
            log.write(json.dumps(counts) + "\n")

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        self.model.to(memory_format=torch.channels_last)
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    loader = DataLoader(Plants(), BATCH, num_workers=WORKERS, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Plant(turns), loader)
