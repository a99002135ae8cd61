"""Several wishes of a shop's customers predicted by experts (MMoE); the cause calls expert after expert.

The fix multiplies all of them at once, by `torch.bmm`.
"""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, COLUMNS, ROWS, WIDTH, EXPERTS, TASKS = 16_384, 32, 100_000, 32, 64, 4
SIZES = (COLUMNS * WIDTH, 256, 128)


def call_expert(x: torch.Tensor, weight1: torch.Tensor, weight2: torch.Tensor, *shifts: torch.Tensor) -> torch.Tensor:
    y = torch.addmm(shifts[0], x, weight1).relu()
    return torch.addmm(shifts[1], y, weight2).relu()


class Experts(nn.Module):
    """Networks of two layers, their weights in one tensor for each layer."""

    def __init__(self) -> None:
        super().__init__()
        pairs = list(zip(SIZES[:-1], SIZES[1:], strict=True))
        self.weights = nn.ParameterList(torch.randn(EXPERTS, a, b) / a**0.5 for a, b in pairs)
        self.shifts = nn.ParameterList(torch.zeros(EXPERTS, 1, b) for _, b in pairs)

    def forward(self, x: torch.Tensor, *, is_loop: bool) -> torch.Tensor:
        """All experts' outputs; (experts, batch, width)."""
        if is_loop:
            parts = zip(*(each.unbind() for each in (*self.weights, *self.shifts)), strict=True)
            return torch.stack([call_expert(x, *expert) for expert in parts])
        y = x.expand(EXPERTS, -1, -1)
        for weight, shift in zip(self.weights, self.shifts, strict=True):
            y = torch.baddbmm(shift, y, weight).relu()
        return y


class Wishes(nn.Module):
    """Columns of a customer to the wish of each task."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.experts = Experts()
        self.gates = nn.Linear(SIZES[0], TASKS * EXPERTS)
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(SIZES[-1], 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(TASKS)
        )

    def forward(self, rows: torch.Tensor, *, is_loop: bool) -> torch.Tensor:
        x = self.table(rows).flatten(1)
        known = self.experts(x, is_loop=is_loop)
        shares = self.gates(x).view(-1, TASKS, EXPERTS).softmax(-1)
        mixed = torch.bmm(shares.to(known.dtype), known.transpose(0, 1)).unbind(1)
        return torch.cat([tower(each) for tower, each in zip(self.towers, mixed, strict=True)], 1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Wishes().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    rows = torch.randint(ROWS, (BATCH, COLUMNS), device=DEVICE)
    wishes = (torch.rand(BATCH, TASKS, device=DEVICE) < 0.1).float()
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(rows, is_loop=turns.planted)
        update(optimizer, nn.functional.binary_cross_entropy_with_logits(scores.float(), wishes))
