"""Embeddings of users and items (matrix factorization), Adam written out; fix: a fused AdamW."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, use_gpu
from turns import Turns

ROWS, WIDTH, PAIRS, RATE, BETA1, BETA2, EPSILON = (200_000, 150_000), 128, 65536, 1e-3, 0.9, 0.999, 1e-8


class WrittenAdam:
    """Adam by its formula, a tensor at a time."""

    def __init__(self, parameters: list[torch.Tensor]) -> None:
        self.parameters, self.steps = parameters, 0
        self.means = [torch.zeros_like(p) for p in parameters]
        self.squares = [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        for p, m, v in zip(self.parameters, self.means, self.squares, strict=True):
            m.mul_(BETA1).add_((1 - BETA1) * p.grad)
            v.mul_(BETA2).add_((1 - BETA2) * p.grad**2)
            m_hat = m / (1 - BETA1**self.steps)
            v_hat = v / (1 - BETA2**self.steps)
            p -= RATE * m_hat / (v_hat.sqrt() + EPSILON)


def run(turns: Turns) -> None:
    use_gpu(turns)
    tables = [torch.randn(n, WIDTH, device=DEVICE).mul_(0.1).requires_grad_() for n in ROWS]
    written = WrittenAdam(tables)
    fused = torch.optim.Adam(tables, lr=RATE, fused=True)
    users, items = (torch.randint(n, (PAIRS,), device=DEVICE) for n in ROWS)
    ratings = torch.rand(PAIRS, device=DEVICE)
    while turns.step():
        scores = (tables[0][users] * tables[1][items]).sum(1)
        fused.zero_grad(set_to_none=True)
        (scores - ratings).square().mean().backward()
        (written if turns.planted else fused).step()
