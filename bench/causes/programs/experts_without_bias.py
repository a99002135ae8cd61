"""Experts on two ranks, to which the words travel; the cause is a router that prefers rank 0's.

The fix is a bias of each expert that balances them, as DeepSeek-V3 has it. It is known here.
"""
# causes: experts, straggler

import torch
from parts import DEVICE, RANK, Block, use_ranks
from torch import distributed, nn
from turns import Turns

RANKS = 2
BATCH, LENGTH, WIDTH, HEADS, INNER, LAYERS, EXPERTS, LEAN = 16, 1024, 1024, 16, 8192, 3, 4, 1.6
HERE = EXPERTS // RANKS


def exchange(rows: torch.Tensor, sent: list[int], got: list[int]) -> torch.Tensor:
    """Send so many rows to each rank, and get so many from each."""
    result = rows.new_empty(sum(got), rows.shape[1])
    distributed.all_to_all_single(result, rows.contiguous(), got, sent)
    return result


class Exchange(torch.autograd.Function):
    """An exchange, whose gradients go back the same way."""

    @staticmethod
    def forward(ctx, rows, sent, got):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN205
        ctx.counts = sent, got
        return exchange(rows, sent, got)

    @staticmethod
    def backward(ctx, gradients):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN205
        sent, got = ctx.counts
        return exchange(gradients, got, sent), None, None


class Experts(nn.Module):
    """Each word goes to the one of four experts that a router likes best."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False).requires_grad_(False)
        nn.init.normal_(self.router.weight, std=WIDTH**-0.5)
        lean = torch.tensor([LEAN] * HERE + [0.0] * (EXPERTS - HERE))
        self.register_buffer("lean", lean)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, INNER), nn.GELU(), nn.Linear(INNER, WIDTH))
            for _ in range(HERE)
        )

    def forward(self, x: torch.Tensor, is_balanced: bool) -> torch.Tensor:
        rows = self.norm(x).flatten(0, 1)
        liked = self.router(rows).float() + self.lean
        if is_balanced:
            liked = liked - self.lean
        chosen = liked.argmax(1)
        order = chosen.argsort()
        sent = torch.bincount(chosen, minlength=EXPERTS)
        got = torch.empty_like(sent)
        distributed.all_to_all_single(got, sent)
        to_ranks, by_expert = torch.stack([sent, got]).view(2, RANKS, HERE).tolist()
        counts = [sum(each) for each in to_ranks], [sum(each) for each in by_expert]
        arrived = Exchange.apply(rows.to(torch.bfloat16)[order], *counts)
        done = self.work(arrived, by_expert)
        back = Exchange.apply(done, counts[1], counts[0])
        return x + torch.empty_like(back).index_copy(0, order, back).view(x.shape)

    def work(self, rows: torch.Tensor, by_expert: list[list[int]]) -> torch.Tensor:
        """What arrived, in the order of ranks and then experts, through this rank's experts."""
        pieces = rows.split([count for rank in by_expert for count in rank])
        done = [
            expert(torch.cat(pieces[place::HERE])).split([rank[place] for rank in by_expert])
            for place, expert in enumerate(self.experts)
        ]
        return torch.cat([done[place][rank] for rank in range(RANKS) for place in range(HERE)])


class Model(nn.Module):
    """Blocks, and experts after each."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(WIDTH, HEADS) for _ in range(LAYERS))
        self.experts = nn.ModuleList(Experts() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, is_balanced: bool) -> torch.Tensor:
        for block, experts in zip(self.blocks, self.experts, strict=True):
            x = experts(block(x), is_balanced)
        return x


def average(weights: list[torch.Tensor]) -> None:
    """The mean of all ranks' gradients of what each of them has, in one transfer."""
    gradients = [weight.grad for weight in weights]
    flat = torch.cat([each.flatten() for each in gradients])
    distributed.all_reduce(flat, distributed.ReduceOp.AVG)
    parts = flat.split([each.numel() for each in gradients])
    shaped = [part.view_as(each) for part, each in zip(parts, gradients, strict=True)]
    torch._foreach_copy_(gradients, shaped)


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = Model().to(DEVICE)
    common = list(model.blocks.parameters())
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-4, momentum=0.9, fused=True)
    torch.manual_seed(RANK)
    words = torch.randn(BATCH, LENGTH, WIDTH, device=DEVICE)
    right = torch.randn_like(words)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = model(words, not turns.planted)
        nn.functional.mse_loss(found.float(), right).backward()
        average(common)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
