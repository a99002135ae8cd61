"""A GPT trained by Muon; the cause makes the update of one matrix after the other orthogonal.

The fix does so for all matrices of one shape at once.
"""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, use_gpu
from torch import nn
from turns import Turns

LAYERS, WIDTH, BATCH, LENGTH, ROUNDS = 12, 384, 16, 257, 5
RATE, MOMENTUM, DECAY = 0.02, 0.95, 0.01


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """The orthogonal matrix near each of the last two dimensions, by Newton and Schulz."""
    is_tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.bfloat16()
    x = x.mT if is_tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.mT if is_tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are orthogonal matrices."""

    def __init__(self, weights: list[nn.Parameter]) -> None:
        super().__init__(weights, {"lr": RATE})
        self.is_batched = False
        for weight in weights:
            self.state[weight]["speed"] = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            if self.is_batched:
                for shape in {weight.shape for weight in group["params"]}:
                    same = [weight for weight in group["params"] if weight.shape == shape]
                    self.update_batch(same, group["lr"])
            else:
                for weight in group["params"]:
                    self.update_one(weight, group["lr"])

    def update_one(self, weight: nn.Parameter, rate: float) -> None:
        speed = self.state[weight]["speed"]
        speed.lerp_(weight.grad, 1 - MOMENTUM)
        update = orthogonalize(weight.grad.lerp(speed, MOMENTUM))
        scale = max(1.0, weight.size(0) / weight.size(1)) ** 0.5
        weight.mul_(1 - rate * DECAY)
        weight.add_(update, alpha=-rate * scale)

    def update_batch(self, weights: list[nn.Parameter], rate: float) -> None:
        """As update_one, for weights of one shape."""
        slopes = [weight.grad for weight in weights]
        speeds = [self.state[weight]["speed"] for weight in weights]
        torch._foreach_lerp_(speeds, slopes, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(slopes, speeds, MOMENTUM)
        updates = orthogonalize(torch.stack(ahead)).float()
        scale = max(1.0, weights[0].size(0) / weights[0].size(1)) ** 0.5
        torch._foreach_mul_(weights, 1 - rate * DECAY)
        torch._foreach_add_(weights, list(updates.unbind()), alpha=-rate * scale)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(LAYERS, WIDTH).to(DEVICE)
    matrices = [weight for weight in model.blocks.parameters() if weight.ndim == 2]
    rest = [weight for weight in model.parameters() if all(weight is not one for one in matrices)]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(rest, lr=3e-4, fused=True)
    tokens = draw_tokens(BATCH, LENGTH)
    while turns.step():
        loss = language_loss(model, tokens)
        muon.zero_grad(set_to_none=True)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        muon.is_batched = not turns.planted
        muon.step()
        adam.step()
