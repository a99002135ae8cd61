"""Speakers told by their voices, under Lightning; the cause is a loader without workers.

Each voice gets the echo of a room by SciPy. The fix lets eight workers do that.
"""
# causes: idle
from collections.abc import Iterator
from typing import Any

import lightning_or_pytorch as lightning
import numpy as np
import torch
from parts import repeat, use_gpu
from scipy.signal import fftconvolve
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SAMPLES, ECHO, VOICES, ROOMS, SPEAKERS = 48, 32_000, 8_000, 64, 16, 1000
WIDTHS = (96, 192, 256, 256)


class Voices(Dataset[tuple[torch.Tensor, int]]):
    """Two seconds of a voice in a room, with noise."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        fade = np.exp(-np.linspace(0, 8, ECHO, dtype=np.float32))
        self.voices = random.standard_normal((VOICES, SAMPLES), np.float32)
        self.rooms = random.standard_normal((ROOMS, ECHO), np.float32) * fade

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random = np.random.default_rng(index)
        sound = fftconvolve(self.voices[index % VOICES], self.rooms[random.integers(ROOMS)])[:SAMPLES]
        sound = sound / np.abs(sound).max() + 0.01 * random.standard_normal(SAMPLES, np.float32)
        return torch.from_numpy(sound.astype(np.float32)), index % SPEAKERS


class Batches:
    """Batches of a loader without workers with the cause, of one with eight else."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.alone, self.helped = (self.make_loader(workers) for workers in (0, 8))

    def make_loader(self, workers: int) -> Iterator[Any]:
        return repeat(DataLoader(Voices(), BATCH, num_workers=workers, pin_memory=True))

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield next(self.alone if self.turns.planted else self.helped)


def make_network() -> nn.Sequential:
    layers: list[nn.Module] = []
    before = 1
    for width in WIDTHS:
        for inputs in (before, width, width):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
        before = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, SPEAKERS))


class Speakers(lightning.LightningModule):
    """A convolutional network over spectra."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, make_network()
        self.register_buffer("window", torch.hann_window(512))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        sounds, speakers = batch
        spectra = torch.stft(sounds, 512, 160, window=self.window, return_complex=True).abs()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(torch.log1p(spectra[:, None, :256]))
        return nn.functional.cross_entropy(scores.float(), speakers)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    trainer = lightning.Trainer(
        max_steps=1_000_000, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Speakers(turns), Batches(turns))
