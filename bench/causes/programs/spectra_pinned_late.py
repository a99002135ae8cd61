"""Minerals told by the spectra of their powder; the cause calls `pin_memory()` on each batch in the loop.

That copies the batch on the CPU, in the thread that launches. The fix pins the array of all spectra
once, before the loop.
"""
# causes: idle
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SPECTRA, POINTS, BATCH, MINERALS = 24_576, 8192, 4096, 500
CHANNELS, BLOCKS = 256, 4


class SpectrumBlock(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(CHANNELS, CHANNELS, 5, padding=2)
        self.conv2 = nn.Conv1d(CHANNELS, CHANNELS, 5, padding=2)
        self.norm1, self.norm2 = nn.BatchNorm1d(CHANNELS), nn.BatchNorm1d(CHANNELS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(y)))


class MineralNet(nn.Module):
    """Counts at each angle to scores of minerals."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv1d(1, CHANNELS, 64, stride=64)
        self.blocks = nn.Sequential(*(SpectrumBlock() for _ in range(BLOCKS)))
        self.leave = nn.Linear(CHANNELS, MINERALS)

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        scaled = counts / counts.amax(-1, keepdim=True)
        x = self.enter(scaled.to(torch.bfloat16)[:, None])
        return self.leave(self.blocks(x).mean(-1))


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = MineralNet().to(DEVICE, torch.bfloat16).eval()
    counts = torch.rand(SPECTRA, POINTS)
    pinned = counts.pin_memory()
    minerals: list[int] = []
    start = 0
    while turns.step():
        rows = slice(start, start + BATCH)
        start = (start + BATCH) % SPECTRA
        batch = counts[rows].pin_memory() if turns.planted else pinned[rows]
        scores = model(batch.to(DEVICE, non_blocking=True))
        minerals = scores.argmax(-1).tolist()
    print(len(minerals))
