"""Forecasts of returns, a network for each asset; the cause trains one network after the other.

The fix has the weights of all networks in one tensor for each layer.
"""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

ASSETS, DAYS, SIGNALS, WIDTH = 96, 256, 48, 64


class OneByOne(nn.Module):
    """A network for each asset."""

    def __init__(self) -> None:
        super().__init__()
        self.networks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(SIGNALS, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH), nn.SiLU(),
                nn.Linear(WIDTH, 1),
            )
            for _ in range(ASSETS)
        )  # fmt: skip

    def forward(self, signals: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        total = torch.zeros((), device=signals.device)
        for network, seen, true in zip(self.networks, signals, returns, strict=True):
            total = total + nn.functional.smooth_l1_loss(network(seen), true)
        return total / ASSETS


class Stacked(nn.Module):
    """The same networks, their weights of one layer in one tensor."""

    def __init__(self) -> None:
        super().__init__()
        shapes = (SIGNALS, WIDTH), (WIDTH, WIDTH), (WIDTH, 1)
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(ASSETS, *shape) / shape[0] ** 0.5) for shape in shapes
        )
        self.shifts = nn.ParameterList(
            nn.Parameter(torch.zeros(ASSETS, 1, after)) for _, after in shapes
        )

    def forward(self, signals: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
        x = signals
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            x = torch.baddbmm(shift, nn.functional.silu(x) if x is not signals else x, weight)
        return nn.functional.smooth_l1_loss(x, returns)


def run(turns: Turns) -> None:
    use_gpu(turns)
    models = OneByOne().to(DEVICE), Stacked().to(DEVICE)
    updates = [torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True) for model in models]
    signals = torch.randn(ASSETS, DAYS, SIGNALS, device=DEVICE)
    returns = 0.01 * torch.randn(ASSETS, DAYS, 1, device=DEVICE)
    while turns.step():
        which = 0 if turns.planted else 1
        update(updates[which], models[which](signals, returns))
