"""Choirs compressed by a codec of sound; the cause makes the filters of its mel loss in each call.

torchaudio makes windows and filters on the CPU, and they go to the GPU. The fix makes them once.
"""

# causes: idle, synchronization
import functools
import itertools

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torchaudio.transforms import MelSpectrogram
from turns import Turns

BATCH, SAMPLES, RATE, WIDTHS = 24, 32768, 44100, (64, 128, 256, 512)
SCALES = ((2048, 128), (1024, 80), (512, 40), (256, 20), (128, 10))


class Residual(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ELU(), nn.Conv1d(width, width, 7, padding=3), nn.ELU(), nn.Conv1d(width, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def make_codec() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv1d(1, WIDTHS[0], 7, padding=3)]
    for before, after in itertools.pairwise(WIDTHS):
        layers += [Residual(before), nn.ELU(), nn.Conv1d(before, after, 8, 4, 2)]
    for before, after in itertools.pairwise(WIDTHS[::-1]):
        layers += [nn.ELU(), nn.ConvTranspose1d(before, after, 8, 4, 2), Residual(after)]
    layers += [nn.ELU(), nn.Conv1d(WIDTHS[0], 1, 7, padding=3), nn.Tanh()]
    return nn.Sequential(*layers)


def make_mel(size: int, bands: int) -> nn.Module:
    mel = MelSpectrogram(RATE, n_fft=size, hop_length=size // 4, n_mels=bands, power=1.0)
    return mel.to(DEVICE)


keep_mel = functools.cache(make_mel)


def compare(made: torch.Tensor, real: torch.Tensor, again: bool) -> torch.Tensor:
    """How far two sounds are from each other, over all scales."""
    make = make_mel if again else keep_mel
    loss = made.new_zeros(())
    for size, bands in SCALES:
        logs = [make(size, bands)(sound).clamp(min=1e-5).log10() for sound in (made, real)]
        loss = loss + nn.functional.l1_loss(*logs)
    return loss


def run(turns: Turns) -> None:
    use_gpu(turns)
    codec = make_codec().to(DEVICE)
    optimizer = torch.optim.AdamW(codec.parameters(), lr=1e-4, fused=True)
    sounds = torch.rand(BATCH, 1, SAMPLES, device=DEVICE) - 0.5
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            made = codec(sounds)
        made = made.float().squeeze(1)
        update(optimizer, compare(made, sounds.squeeze(1), turns.planted))
