"""Cells of two days matched by optimal transport; the cause reads in each round how far it has come.

The fix reads that in each tenth round.
"""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from turns import Turns

CELLS, GENES, ROUNDS, BLUR, ENOUGH = 6000, 50, 100, 0.05, 1e-9


def make_kernel(early: torch.Tensor, late: torch.Tensor) -> torch.Tensor:
    """How near each early cell is to each late one, by the genes that both express."""
    costs = torch.cdist(early, late).square()
    return (-costs / (BLUR * costs.mean())).clamp(min=-60).exp()


def match(kernel: torch.Tensor, every: int) -> torch.Tensor:
    """The share of each early cell in all late ones, by the rounds of Sinkhorn."""
    rows, columns = (torch.full((n,), 1 / n, device=kernel.device) for n in kernel.shape)
    v = torch.ones_like(columns)
    for number in range(ROUNDS):
        u = rows / (kernel @ v)
        reached = kernel.T @ u
        if number % every == 0:
            error = (v * reached - columns).abs().sum()
            if error < ENOUGH:
                break
        v = columns / reached
    return u * (kernel @ v)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    days = torch.randn(4, CELLS, GENES, device=DEVICE)
    total, steps = torch.zeros(CELLS, device=DEVICE), 0
    while turns.step():
        early, late = days[steps % 3], days[steps % 3 + 1]
        total, steps = total + match(make_kernel(early, late), 1 if turns.planted else 10), steps + 1
