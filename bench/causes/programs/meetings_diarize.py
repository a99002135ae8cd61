"""Who speaks when in recordings of meetings; the cause clusters the vectors of voices by NumPy.

The fix compares, refines and splits them on the GPU.
"""
# causes: idle
import numpy as np
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SEGMENTS, FRAMES, BANDS = 1000, 160, 80
CHANNELS, VOICE = 1024, 192
SPEAKERS, KEPT_PERCENT, ROUNDS = 8, 90, 6
MEETINGS = 3


class DilatedBlock(nn.Module):
    """A convolution over time that sees further, beside a shortcut."""

    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(CHANNELS, CHANNELS, 3, padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm1d(CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.norm(F.relu(self.conv(x)))


class VoiceEncoder(nn.Module):
    """Spectra of segments to the vector of a voice each (x-vectors)."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(BANDS, CHANNELS, 5, padding=2)
        self.blocks = nn.Sequential(*(DilatedBlock(dilation) for dilation in (1, 2, 3, 4)))
        self.last = nn.Linear(2 * CHANNELS, VOICE)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.relu(self.first(spectra)))
        pooled = torch.cat([x.mean(-1), x.std(-1)], dim=-1)
        return F.normalize(self.last(pooled).float(), dim=-1)


def cluster_with_numpy(voices: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Spectral clustering: the speaker of each segment."""
    affinity = voices @ voices.T
    limits = np.percentile(affinity, KEPT_PERCENT, axis=1, keepdims=True)
    affinity = np.where(affinity < limits, 0.01 * affinity, affinity)
    affinity = np.maximum(affinity, affinity.T)
    affinity = affinity @ affinity.T
    affinity = affinity / affinity.max(axis=1, keepdims=True)
    basis = start
    for _ in range(ROUNDS):
        basis, _ = np.linalg.qr(affinity @ basis)
    return np.abs(basis).argmax(axis=1)


def cluster_with_torch(voices: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """As cluster_with_numpy."""
    affinity = voices @ voices.T
    limits = torch.quantile(affinity, KEPT_PERCENT / 100, dim=1, keepdim=True)
    affinity = torch.where(affinity < limits, 0.01 * affinity, affinity)
    affinity = torch.maximum(affinity, affinity.T)
    affinity = affinity @ affinity.T
    affinity = affinity / affinity.amax(dim=1, keepdim=True)
    basis = start
    for _ in range(ROUNDS):
        basis, _ = torch.linalg.qr(affinity @ basis)
    return basis.abs().argmax(dim=1)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    encoder = VoiceEncoder().to(DEVICE, torch.bfloat16).eval()
    shape = (MEETINGS, SEGMENTS, BANDS, FRAMES)
    meetings = torch.randn(shape, dtype=torch.bfloat16).pin_memory()
    start = np.random.default_rng(0).standard_normal((SEGMENTS, SPEAKERS)).astype(np.float32)
    start_on_gpu = torch.from_numpy(start).to(DEVICE)
    speakers: list[list[int]] = []
    number = 0
    while turns.step():
        voices = encoder(meetings[number % MEETINGS].to(DEVICE, non_blocking=True))
        number += 1
        if turns.planted:
            labels = cluster_with_numpy(voices.cpu().numpy(), start)
        else:
            labels = cluster_with_torch(voices, start_on_gpu)
        speakers.append(labels.tolist())
