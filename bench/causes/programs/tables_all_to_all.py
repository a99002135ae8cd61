"""Clicks by many columns, with tables spread over the ranks; the cause exchanges rows by table.

The fix exchanges those of all tables at once.
"""
# causes: exposed_communication
import torch
from parts import DEVICE, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 4
BATCH, TABLES, ROWS, WIDTH, NUMBERS, INNER = 8192, 64, 50_000, 32, 64, 6144


def exchange(rows: torch.Tensor) -> torch.Tensor:
    """Send the n-th part to rank n, and get one from each rank."""
    parts = torch.empty_like(rows)
    distributed.all_to_all_single(parts, rows)
    return parts


class Exchange(torch.autograd.Function):
    """An exchange, whose gradients go back the same way."""

    @staticmethod
    def forward(ctx, rows):  # type: ignore[no-untyped-def]
        return exchange(rows.contiguous())

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return exchange(gradient.contiguous())


class Tables(nn.Module):
    """The tables of this rank, one below the other."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(TABLES * ROWS, WIDTH)
        self.register_buffer("starts", ROWS * torch.arange(TABLES))

    def forward(self, ids: torch.Tensor, one_by_one: bool) -> torch.Tensor:
        """Ids of all ranks' samples, in the own tables; rows of own samples, in all tables."""
        rows = self.rows(ids + self.starts)
        if one_by_one:
            parts = torch.stack([Exchange.apply(part) for part in rows.unbind(1)], 1)
        else:
            parts = Exchange.apply(rows)
        return parts.view(RANKS, BATCH, TABLES * WIDTH).transpose(0, 1).flatten(1)


class Clicks(nn.Module):
    """Numbers and rows, to a score."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = nn.Sequential(nn.Linear(NUMBERS, 512), nn.ReLU(), nn.Linear(512, 512))
        self.layers = nn.Sequential(
            nn.Linear(512 + RANKS * TABLES * WIDTH, INNER), nn.ReLU(),
            nn.Linear(INNER, INNER), nn.ReLU(), nn.Linear(INNER, INNER), nn.ReLU(),
            nn.Linear(INNER, 1),
        )  # fmt: skip

    def forward(self, numbers: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.cat([self.numbers(numbers), rows], 1)).squeeze(1)


def run(turns: Turns) -> None:
    use_ranks(turns)
    tables, clicks = Tables().to(DEVICE), DistributedDataParallel(Clicks().to(DEVICE))
    optimizers = [
        torch.optim.SGD(tables.parameters(), lr=0.1),
        torch.optim.AdamW(clicks.parameters(), lr=1e-4, fused=True),
    ]
    ids = torch.randint(ROWS, (RANKS * BATCH, TABLES), device=DEVICE)
    numbers = torch.randn(BATCH, NUMBERS, device=DEVICE)
    labels = torch.randint(2, (BATCH,), device=DEVICE).float()
    while turns.step():
        rows = tables(ids, turns.planted)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = clicks(numbers, rows)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), labels)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
