"""Forecasts of time series by N-BEATS; the cause cuts and stacks windows one by one in Python."""
# causes: idle, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

TIMES, CHANNELS, PAST, NEXT, WINDOWS, WIDTH, BLOCKS = 500_000, 16, 96, 24, 4096, 2048, 4


class Block(nn.Module):
    """Explains a part of the past, and gives its part of the forecast."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(PAST * CHANNELS, WIDTH), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Linear(WIDTH, WIDTH), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.past = nn.Linear(WIDTH, PAST * CHANNELS)
        self.next = nn.Linear(WIDTH, NEXT * CHANNELS)

    def forward(self, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.layers(past)
        return past - self.past(x), self.next(x)


class Forecaster(nn.Module):
    """Windows of shape (windows, PAST, CHANNELS) to what follows them, flat."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        past, forecast = windows.flatten(1), torch.zeros((), device=windows.device)
        for block in self.blocks:
            past, part = block(past)
            forecast = forecast + part
        return forecast


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    series = torch.randn(TIMES, CHANNELS, device=DEVICE)
    # A view of all windows, of shape (starts, PAST + NEXT, CHANNELS).
    every = series.unfold(0, PAST + NEXT, 1).transpose(1, 2)
    while turns.step():
        starts = torch.randint(len(every), (WINDOWS,))
        if turns.planted:
            cut = [series[start : start + PAST + NEXT] for start in starts.tolist()]
            windows = torch.stack(cut)
        else:
            windows = every[starts.pin_memory().to(DEVICE, non_blocking=True)]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            forecast = model(windows[:, :PAST])
        update(optimizer, nn.functional.l1_loss(forecast.float(), windows[:, PAST:].flatten(1)))
