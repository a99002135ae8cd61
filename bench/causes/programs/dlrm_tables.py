"""A DLRM of many columns; the cause gives each column a table and looks them up one by one."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, COLUMNS, ROWS, WIDTH, NUMBERS = 4096, 64, 10_000, 32, 13


class Tables(nn.Module):
    """A table for each column, as in the published code of DLRM."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(COLUMNS))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pairs = enumerate(self.tables)
        return torch.stack([table(ids[:, column]) for column, table in pairs], 1)


class OneTable(nn.Module):
    """The rows of all columns in one table."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS * COLUMNS, WIDTH)
        self.register_buffer("starts", ROWS * torch.arange(COLUMNS))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids + self.starts)


class Dlrm(nn.Module):
    """Numbers and columns, the products of each two of them, and a score."""

    def __init__(self, tables: nn.Module) -> None:
        super().__init__()
        self.tables = tables
        self.bottom = nn.Sequential(
            nn.Linear(NUMBERS, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
            nn.Linear(256, WIDTH),
        )  # fmt: skip
        one, other = torch.tril_indices(COLUMNS + 1, COLUMNS + 1, -1)
        self.register_buffer("pairs", one * (COLUMNS + 1) + other)
        self.top = nn.Sequential(
            nn.Linear(WIDTH + len(one), 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
            nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1),
        )  # fmt: skip

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        rows = torch.cat([dense.unsqueeze(1), self.tables(ids)], 1)
        products = torch.bmm(rows, rows.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([dense, products.index_select(1, self.pairs)], 1)).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    many, one = Dlrm(Tables()).to(DEVICE), Dlrm(OneTable()).to(DEVICE)
    updates = [torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True) for model in (many, one)]
    numbers = torch.rand(BATCH, NUMBERS, device=DEVICE)
    ids = torch.randint(ROWS, (BATCH, COLUMNS), device=DEVICE)
    clicks = torch.randint(2, (BATCH,), device=DEVICE).float()
    while turns.step():
        model, optimizer = (many, updates[0]) if turns.planted else (one, updates[1])
        scores = model(numbers, ids)
        update(optimizer, nn.functional.binary_cross_entropy_with_logits(scores, clicks))
