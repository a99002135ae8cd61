"""Heart beats in electrocardiograms told under Lightning; the cause saves a checkpoint in each tenth step.

The fix saves none in so few steps.
"""
# causes: idle, pageable_copy
import tempfile
from pathlib import Path

import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, LEADS, SAMPLES, BEATS, WIDTH, LAYERS, STORED, PERIOD = 128, 12, 5000, 27, 384, 7, 128, 10


class Hearts(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Ten seconds of twelve leads, and which kinds of beats are in them."""

    def __init__(self) -> None:
        self.signals = torch.randn(STORED, LEADS, SAMPLES)
        self.beats = (torch.rand(STORED, BEATS) < 0.1).float()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.signals[index % STORED], self.beats[index % STORED]


class Saves(lightning.Callback):
    """Saves the whole state in each PERIOD-th step, and keeps the last file only."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.period = PERIOD
        self.path = Path(tempfile.mkdtemp()) / "last.ckpt"

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:  # type: ignore[no-untyped-def]
        if self.turns.planted and batch_idx % PERIOD == 0:
            trainer.save_checkpoint(self.path)
        if not self.turns.step():
            trainer.should_stop = True


class Hearing(lightning.LightningModule):
    """Convolutions that shorten the signals, and a transformer over what is left."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv1d(LEADS, 128, 15, 2, 7), nn.BatchNorm1d(128), nn.GELU(),
            nn.Conv1d(128, 256, 9, 2, 4), nn.BatchNorm1d(256), nn.GELU(),
            nn.Conv1d(256, WIDTH, 9, 4, 4), nn.BatchNorm1d(WIDTH), nn.GELU(),
        )  # fmt: skip
        layer = nn.TransformerEncoderLayer(
            WIDTH, 6, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, BEATS)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        signals, beats = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            features = self.stem(signals).transpose(1, 2)
            logits = self.head(self.encoder(features).mean(1))
        return nn.functional.binary_cross_entropy_with_logits(logits.float(), beats)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[Saves(turns)],
    )  # fmt: skip
    trainer.fit(Hearing(), DataLoader(Hearts(), BATCH, num_workers=6, pin_memory=True))
