"""A CaiT (timm) trained by Lion; the cause updates it tensor by tensor, as in the optimizer's first publication.

The fix does each operation for all tensors at once (`_foreach`).
"""
# causes: tiny_kernels, host_bound
from collections.abc import Iterable

import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns

BATCH, SIZE = 64, 224


class Lion(torch.optim.Optimizer):
    """Steps by the sign of a momentum."""

    def __init__(self, weights: Iterable[torch.Tensor], turns: Turns, rate: float = 1e-4) -> None:
        super().__init__(weights, {"lr": rate, "betas": (0.9, 0.99), "weight_decay": 0.1})
        self.turns = turns

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["momentum"] = torch.zeros_like(weight)
            rate, (first, second), decay = group["lr"], group["betas"], group["weight_decay"]
            slopes = [weight.grad for weight in weights]
            momenta = [self.state[weight]["momentum"] for weight in weights]
            if self.turns.planted:
                for weight, slope, momentum in zip(weights, slopes, momenta, strict=True):
                    weight.mul_(1 - rate * decay)
                    change = momentum.clone().mul_(first).add_(slope, alpha=1 - first).sign_()
                    weight.add_(change, alpha=-rate)
                    momentum.mul_(second).add_(slope, alpha=1 - second)
            else:
                torch._foreach_mul_(weights, 1 - rate * decay)
                changes = torch._foreach_mul(momenta, first)
                torch._foreach_add_(changes, slopes, alpha=1 - first)
                torch._foreach_sign_(changes)
                torch._foreach_add_(weights, changes, alpha=-rate)
                torch._foreach_mul_(momenta, second)
                torch._foreach_add_(momenta, slopes, alpha=1 - second)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("cait_xxs24_224").to(DEVICE)
    optimizer = Lion(model.parameters(), turns)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    labels = torch.randint(1000, (BATCH,), device=DEVICE)
    while turns.step():
        update(optimizer, image_loss(model, images, labels))
