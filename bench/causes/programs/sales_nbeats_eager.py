"""N-BEATS forecasts sales with small blocks; the cause is that Python launches each small kernel.

The fix replays the whole step as a CUDA graph.
"""

# causes: host_bound, tiny_kernels
from itertools import pairwise

import torch
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

BATCH, PAST, FUTURE, WIDTH, BLOCKS, DEPTH, SHOPS, DAYS = 1024, 168, 28, 256, 30, 4, 4096, 730


class Block(nn.Module):
    """The past to what it explains of the past, and to its part of the forecast."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [PAST] + DEPTH * [WIDTH]
        layers: list[nn.Module] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.past, self.future = nn.Linear(WIDTH, PAST), nn.Linear(WIDTH, FUTURE)

    def forward(self, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.layers(past)
        return self.past(x), self.future(x)


class Forecaster(nn.Module):
    """Blocks, each of which sees what the ones before it left unexplained."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        forecast = past[:, -1:].expand(-1, FUTURE)
        for block in self.blocks:
            explained, part = block(past)
            past, forecast = past - explained, forecast + part
        return forecast


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    sales = torch.rand(SHOPS, DAYS, device=DEVICE)
    days = torch.arange(PAST + FUTURE, device=DEVICE)

    def learn() -> None:
        shops = torch.randint(SHOPS, (BATCH, 1), device=DEVICE)
        starts = torch.randint(DAYS - PAST - FUTURE, (BATCH, 1), device=DEVICE)
        windows = sales[shops, starts + days]
        optimizer.zero_grad(set_to_none=True)
        found = model(windows[:, :PAST])
        nn.functional.l1_loss(found, windows[:, PAST:]).backward()
        optimizer.step()

    run_eager_or_graph(turns, learn)
