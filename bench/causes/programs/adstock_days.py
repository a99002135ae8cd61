"""Sales of regions from what was spent on advertisements; the cause adds up their lasting effect day by day.

Each day keeps a learned share of the effect of the day before (adstock). The cause computes that in
a loop of small kernels. The fix multiplies the series with the powers of each channel's share.
"""

# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, Block, update, use_gpu
from torch import nn
from turns import Turns

REGIONS, DAYS, CHANNELS, WIDTH, HEADS, LAYERS = 384, 360, 24, 256, 4, 4


class Sales(nn.Module):
    """What was spent by day and channel, to the sales of each day."""

    def __init__(self) -> None:
        super().__init__()
        self.keep = nn.Parameter(torch.rand(CHANNELS))
        self.half_effect = nn.Parameter(torch.zeros(CHANNELS))
        self.first, self.last = nn.Linear(CHANNELS, WIDTH), nn.Linear(WIDTH, 1)
        self.blocks = nn.Sequential(*(Block(WIDTH, HEADS) for _ in range(LAYERS)))
        days = torch.arange(DAYS)
        self.register_buffer("apart", (days[:, None] - days).clamp(min=0).float())

    def forward(self, spent: torch.Tensor, day_by_day: bool) -> torch.Tensor:
        keep = self.keep.sigmoid()
        effect = self.add_up(spent, keep) if day_by_day else self.multiply(spent, keep)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.first(effect / (effect + self.half_effect.exp()))
            return self.last(self.blocks(x)).squeeze(-1)

    def add_up(self, spent: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        effect, effects = torch.zeros_like(spent[:, 0]), []
        for today in spent.unbind(1):
            effect = today + keep * effect
            effects.append(effect)
        return torch.stack(effects, 1)

    def multiply(self, spent: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        shares = (keep[:, None, None] ** self.apart).tril()
        return torch.einsum("cts,rsc->rtc", shares, spent)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Sales().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    spent = torch.rand(REGIONS, DAYS, CHANNELS, device=DEVICE)
    sales = torch.rand(REGIONS, DAYS, device=DEVICE)
    while turns.step():
        found = model(spent, turns.planted).float()
        update(optimizer, nn.functional.mse_loss(found, sales))
