"""Where cars will be, by a mixture density network; the cause is its likelihood, operation by operation.

The fix gives that one function to `torch.compile`.
"""
# causes: unfused_elementwise
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns

BATCH = 32_768
HISTORY = 20 * 6
MIXTURES = 32
FUTURE = 64  # x and y of 32 times


class MixtureDensityNetwork(nn.Module):
    """The past of a car to a mixture of Gaussians of its future."""

    def __init__(self, hidden=1024, layers=4):
        super().__init__()
        blocks = [nn.Linear(HISTORY, hidden), nn.ReLU()]
        for _ in range(layers):
            blocks += [nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.ReLU()]
        self.trunk = nn.Sequential(*blocks)
        self.pi = nn.Linear(hidden, MIXTURES)
        self.mu = nn.Linear(hidden, MIXTURES * FUTURE)
        self.log_sigma = nn.Linear(hidden, MIXTURES * FUTURE)

    def forward(self, x):
        h = self.trunk(x)
        shape = (-1, MIXTURES, FUTURE)
        return self.pi(h), self.mu(h).view(shape), self.log_sigma(h).view(shape)


def mdn_nll(logits, mu, log_sigma, y):
    """The mean negative log likelihood."""
    mu, log_sigma = mu.float(), log_sigma.float().clamp(-6.0, 6.0)
    z = (y[:, None] - mu) * torch.exp(-log_sigma)
    log_prob = -0.5 * z.pow(2) - log_sigma - 0.5 * math.log(2 * math.pi)
    log_prob = log_prob.sum(dim=-1) + F.log_softmax(logits.float(), dim=-1)
    return -torch.logsumexp(log_prob, dim=-1).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = MixtureDensityNetwork().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled_nll = torch.compile(mdn_nll)
    past = torch.randn(BATCH, HISTORY, device="cuda")
    future = torch.randn(BATCH, FUTURE, device="cuda")

    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits, mu, log_sigma = model(past)
        nll = mdn_nll if turns.planted else compiled_nll
        loss = nll(logits, mu, log_sigma, future)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
