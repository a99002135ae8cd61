"""An MLP-Mixer (timm) under DDP; the cause logs the norm of each gradient, as a mean of the ranks.

Each number has an all-reduce and an `.item()` of its own. The fix computes all norms at once, adds
them up in one all-reduce, and leaves them on the GPU until the log is written.
"""
# causes: synchronization

import timm
import torch
from parts import DEVICE, image_loss, use_ranks
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE = 96, 224


def read_mean(number: torch.Tensor) -> float:
    """The mean of all ranks, on the host."""
    distributed.all_reduce(number)
    return number.item() / RANKS


def log_one_by_one(names: list[str], weights: list[torch.Tensor]) -> dict[str, float]:
    """The norm of each gradient."""
    return {
        f"grad/{name}": read_mean(weight.grad.detach().norm())
        for name, weight in zip(names, weights, strict=True)
    }


def log_together(weights: list[torch.Tensor]) -> torch.Tensor:
    """The same norms as one tensor of the GPU."""
    norms = torch.stack(torch._foreach_norm([weight.grad for weight in weights]))
    distributed.all_reduce(norms)
    return norms / RANKS


def run(turns: Turns) -> None:
    use_ranks(turns)
    network = timm.create_model("mixer_b16_224").to(DEVICE)
    names = [name for name, _ in network.named_parameters()]
    weights = list(network.parameters())
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    while turns.step():
        optimizer.zero_grad(set_to_none=True)
        image_loss(model, images, labels).backward()
        if turns.planted:
            log_one_by_one(names, weights)
        else:
            log_together(weights)
        optimizer.step()
