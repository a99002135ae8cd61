"""Sales of shops forecast as 64 quantiles of each day; the cause computes their loss op by op.

It is the pinball loss with a smooth corner, and a price on quantiles that cross. The fix gives that
one function to `torch.compile`.
"""

# causes: unfused_elementwise
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

SERIES, PAST, AHEAD, QUANTILES, WIDTH, LAYERS = 6144, 512, 112, 64, 2048, 4
CORNER, PRICE = 0.05, 0.1


class Residual(nn.Module):
    """A network with one hidden layer, added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(self.wide(self.norm(x)).relu())


class Forecaster(nn.Module):
    """The past of a series to the quantiles of each day that comes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(PAST, WIDTH)
        self.layers = nn.Sequential(*(Residual() for _ in range(LAYERS)))
        self.last = nn.Linear(WIDTH, AHEAD * QUANTILES)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(self.first(past))).unflatten(1, (AHEAD, QUANTILES))


def quantile_loss(found: torch.Tensor, true: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The mean over series, days and quantiles."""
    found = found.float()
    error = true[..., None] - found
    size = error.abs()
    smooth = torch.where(size < CORNER, 0.5 * error**2 / CORNER, size - 0.5 * CORNER)
    side = torch.where(error >= 0, levels, 1 - levels)
    crossed = (found[..., :-1] - found[..., 1:]).clamp(min=0)
    return (side * smooth).mean() + PRICE * (crossed**2).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled_loss = torch.compile(quantile_loss)
    levels = (torch.arange(QUANTILES, device=DEVICE) + 0.5) / QUANTILES
    series = torch.randn(SERIES, PAST + AHEAD, device=DEVICE)
    past, true = series.split([PAST, AHEAD], 1)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(past)
        loss = quantile_loss if turns.planted else compiled_loss
        update(optimizer, loss(found, true, levels))
