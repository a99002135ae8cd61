"""Traces of earthquakes made alike and filtered; the cause normalizes each by torch's layer norm.

That has a block for each of 6 traces. The fix measures pieces of them, and joins these.
"""
# causes: unused_gpu
import torch
from parts import DEVICE, use_gpu
from turns import Turns

TRACES, PIECES, PIECE = 6, 512, 4096


def normalize(traces: torch.Tensor) -> torch.Tensor:
    """Each trace with a mean of 0 and a variance of 1."""
    return torch.nn.functional.layer_norm(traces, traces.shape[1:])


def normalize_by_pieces(traces: torch.Tensor) -> torch.Tensor:
    """As normalize."""
    variance, mean = torch.var_mean(traces.view(TRACES, PIECES, PIECE), -1, correction=0)
    middle = mean.mean(1, keepdim=True)
    spread = (variance + (mean - middle) ** 2).mean(1, keepdim=True)
    return (traces - middle) * torch.rsqrt(spread + 1e-5)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    traces = torch.randn(TRACES, PIECES * PIECE, device=DEVICE)
    band = torch.rand(PIECES * PIECE // 2 + 1, device=DEVICE)
    while turns.step():
        alike = normalize(traces) if turns.planted else normalize_by_pieces(traces)
        for _ in range(4):
            alike = torch.fft.irfft(torch.fft.rfft(alike) * band, n=PIECES * PIECE)
        traces = 0.5 * traces + 0.5 * alike
