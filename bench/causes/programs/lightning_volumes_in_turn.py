"""Cell types told in volumes of a light sheet microscope, under Lightning; the cause is where its batches are copied.

Lightning copies a pinned batch in the stream of the kernels, when its step begins. The fix is an
iterator that copies the next batch on a stream of its own: Lightning leaves it where it is.
"""
# causes: exposed_copy
from collections.abc import Iterator

import lightning_or_pytorch as lightning
import numpy as np
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, PATCH, BATCHES, CLASSES = 20, 256, 32, 2, 12
WIDTH, HEADS, LAYERS, PARTS = 640, 10, 10, SIDE // PATCH

Batch = tuple[torch.Tensor, torch.Tensor]


def make_batches() -> list[Batch]:
    """Volumes of bytes in pinned memory."""
    random = np.random.default_rng(0)
    batches = []
    for _ in range(BATCHES):
        volumes = random.integers(256, size=(BATCH, SIDE, SIDE, SIDE), dtype=np.uint8)
        kinds = torch.from_numpy(random.integers(CLASSES, size=BATCH))
        batches.append((torch.from_numpy(volumes).pin_memory(), kinds.pin_memory()))
    return batches


class Batches:
    """Pinned batches with the cause; else batches on the GPU, copied beside the kernels."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.batches, self.stream = turns, make_batches(), torch.cuda.Stream()
        self.next: Batch | None = None
        self.taken = 0

    def take(self) -> Batch:
        self.taken += 1
        return self.batches[self.taken % BATCHES]

    def begin(self) -> None:
        with torch.cuda.stream(self.stream):
            volumes, kinds = self.take()
            self.next = (
                volumes.to(DEVICE, non_blocking=True),
                kinds.to(DEVICE, non_blocking=True),
            )

    def take_ahead(self) -> Batch:
        if self.next is None:
            self.begin()
        stream = torch.cuda.current_stream()
        stream.wait_stream(self.stream)
        batch = self.next
        for tensor in batch:
            tensor.record_stream(stream)
        self.begin()
        return batch

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self.take() if self.turns.planted else self.take_ahead()


class Cells(lightning.LightningModule):
    """A transformer over cubes of a volume."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        self.embed = nn.Linear(PATCH**3, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(1, PARTS**3, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        self.head = nn.Linear(WIDTH, CLASSES)
        turns.step()

    def cut(self, volumes: torch.Tensor) -> torch.Tensor:
        """The voxels of each cube."""
        x = volumes.view(BATCH, PARTS, PATCH, PARTS, PATCH, PARTS, PATCH)
        x = x.permute(0, 1, 3, 5, 2, 4, 6).reshape(BATCH, PARTS**3, PATCH**3)
        return x.to(torch.bfloat16).div_(255)

    def training_step(self, batch: Batch, _: int) -> torch.Tensor:
        volumes, kinds = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.encoder(self.embed(self.cut(volumes)) + self.places)
            scores = self.head(x.mean(1))
        return nn.functional.cross_entropy(scores.float(), kinds)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Cells(turns), Batches(turns))
