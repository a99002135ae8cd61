"""A net learns from wide tables of boreholes in memory; the cause copies pageable batches.

The fix pins the table once and copies without a wait.
"""

# causes: pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCHES, ROWS, COLUMNS, WIDTH, LAYERS = 6, 32768, 1024, 2048, 3


class Net(nn.Module):
    """Columns to the ore grade, with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(COLUMNS)
        self.enter, self.leave = nn.Linear(COLUMNS, WIDTH), nn.Linear(WIDTH, 1)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(self.norm(x))
        for layer in self.layers:
            x = x + layer(nn.functional.silu(x))
        return self.leave(x).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    table = [torch.rand(ROWS, COLUMNS) for _ in range(BATCHES)]
    pinned = [rows.pin_memory() for rows in table]
    grades = torch.rand(BATCHES, ROWS, device=DEVICE)
    batch = 0
    while turns.step():
        batch = (batch + 1) % BATCHES
        if turns.planted:
            rows = table[batch].to(DEVICE)
        else:
            rows = pinned[batch].to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(rows)
        update(optimizer, nn.functional.mse_loss(found.float(), grades[batch]))
