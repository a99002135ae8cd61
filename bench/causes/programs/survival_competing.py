"""Survival of patients with eight possible events, by Cox's partial likelihood; the cause sums the risks of each event in one scan.

The patients of a registry are one batch, the longest survivor first. `logcumsumexp` over a row has
one block for each of 8 rows. The fix sums up pieces of the rows, and then the pieces.
"""

# causes: unused_gpu
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

PATIENTS, COLUMNS, WIDTH, EVENTS, PIECE = 1_048_576, 64, 256, 8, 1024


def make_model() -> nn.Module:
    """Columns of a patient to a logarithm of risk for each event."""
    return nn.Sequential(
        nn.Linear(COLUMNS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, EVENTS),
    )  # fmt: skip


def sum_rows(risks: torch.Tensor) -> torch.Tensor:
    return torch.logcumsumexp(risks, 1)


def sum_pieces(risks: torch.Tensor) -> torch.Tensor:
    """The same sums: of each piece, and of all pieces before it."""
    inside = torch.logcumsumexp(risks.unflatten(1, (-1, PIECE)), 2)
    before = torch.logcumsumexp(inside[:, :, -1], 1)
    later = torch.logaddexp(inside[:, 1:], before[:, :-1, None])
    return torch.cat([inside[:, :1], later], 1).flatten(1)


def likelihood(risks: torch.Tensor, happened: torch.Tensor, at_once: bool) -> torch.Tensor:
    """The negative logarithm of Cox's partial likelihood, over all events."""
    at_risk = sum_rows(risks) if at_once else sum_pieces(risks)
    return ((at_risk - risks) * happened).sum() / happened.sum()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    columns = torch.randn(PATIENTS, COLUMNS, device=DEVICE)
    happened = (torch.rand(EVENTS, PATIENTS, device=DEVICE) < 0.02).float()
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            risks = model(columns)
        risks = risks.float().T.contiguous()
        update(optimizer, likelihood(risks, happened, turns.planted))
