"""Households sorted by a year of their smart meters; the cause copies a pinned batch when its step begins.

A row has three quantities of each quarter of an hour. The fix copies the next batch on a second
stream while this one computes.
"""

# causes: exposed_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

HOUSEHOLDS, DAYS, A_DAY, QUANTITIES, KINDS, STORED = 560, 365, 96, 3, 12, 3
WIDTH, HEADS, LAYERS = 256, 4, 2


class Layer(nn.Module):
    """Attention between the days of a year, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Sorter(nn.Module):
    """A year of a household to the kind of its tariff."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(A_DAY * QUANTITIES, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(DAYS, WIDTH))
        self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, KINDS)

    def forward(self, years: torch.Tensor) -> torch.Tensor:
        x = self.layers(self.first(years) + self.places)
        return self.head(x.mean(1))


class Batches:
    """Years of households in pinned memory, copied when they are asked for or one step before."""

    def __init__(self) -> None:
        shape = (HOUSEHOLDS, DAYS, A_DAY * QUANTITIES)
        self.stored = [torch.empty(shape, pin_memory=True).normal_() for _ in range(STORED)]
        self.number, self.stream = 0, torch.cuda.Stream()
        self.ahead: torch.Tensor | None = None

    def copy(self) -> torch.Tensor:
        self.number += 1
        return self.stored[self.number % STORED].to(DEVICE, non_blocking=True)

    def copy_ahead(self) -> torch.Tensor:
        with torch.cuda.stream(self.stream):
            return self.copy()

    def take(self) -> torch.Tensor:
        """The batch that was copied beside the last step; the next one's copy begins."""
        taken = self.copy_ahead() if self.ahead is None else self.ahead
        torch.cuda.current_stream().wait_stream(self.stream)
        taken.record_stream(torch.cuda.current_stream())
        self.ahead = self.copy_ahead()
        return taken


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Sorter().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batches = Batches()
    kinds = torch.randint(KINDS, (HOUSEHOLDS,), device=DEVICE)
    while turns.step():
        years = batches.copy() if turns.planted else batches.take()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(years)
        update(optimizer, nn.functional.cross_entropy(scores.float(), kinds))
