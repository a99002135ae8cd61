"""Plans for a robot by the cross-entropy method over learned dynamics (PETS); the cause draws and sorts plans by NumPy.

The fix draws them and keeps the best on the GPU.
"""
# causes: idle, synchronization
import itertools

import numpy as np
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

NETWORKS, PLANS, COPIES, TIMES, ACTIONS, STATE, WIDTH = 5, 2048, 4, 25, 7, 20, 400
ROUNDS, KEPT, SMOOTH = 3, 100, 0.1


class Dynamics(nn.Module):
    """Networks that tell how a state changes, all in one product a layer."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [STATE + ACTIONS, WIDTH, WIDTH, WIDTH, WIDTH, 2 * STATE]
        pairs = list(itertools.pairwise(sizes))
        self.weights = nn.ParameterList(
            torch.randn(NETWORKS, inputs, outputs) / inputs**0.5 for inputs, outputs in pairs
        )
        self.biases = nn.ParameterList(torch.zeros(NETWORKS, 1, size) for _, size in pairs)

    def forward(self, state: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """The next state (network, row, STATE), drawn from what the networks tell."""
        x = torch.cat([state, action], -1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = nn.functional.silu(torch.baddbmm(bias, x, weight))
        mean, spread = torch.baddbmm(self.biases[-1], x, self.weights[-1]).chunk(2, -1)
        spread = torch.exp(0.5 * spread.clamp(-10, 0.5))
        return state + 0.05 * (mean + spread * torch.randn_like(mean))


def cost_plans(model: Dynamics, state: torch.Tensor, plans: torch.Tensor) -> torch.Tensor:
    """The cost of each plan (PLANS, TIMES, ACTIONS), the mean of its copies."""
    actions = plans.repeat_interleave(COPIES, 0).expand(NETWORKS, -1, -1, -1)
    states = state.expand(NETWORKS, PLANS * COPIES, STATE)
    costs = torch.zeros(NETWORKS, PLANS * COPIES, device=DEVICE)
    for time in range(TIMES):
        states = model(states, actions[:, :, time])
        reached = (states[..., :3] - states[..., 3:6]).square().sum(-1)
        costs = costs + reached + 0.01 * actions[:, :, time].square().sum(-1)
    return costs.mean(0).view(PLANS, COPIES).mean(1)


def plan_on_host(model: Dynamics, state: torch.Tensor, random: np.random.Generator) -> np.ndarray:
    """The first action of the best plan."""
    mean, variance = np.zeros((TIMES, ACTIONS)), np.full((TIMES, ACTIONS), 0.25)
    for _ in range(ROUNDS):
        noise = np.clip(random.standard_normal((PLANS, TIMES, ACTIONS)), -2, 2)
        plans = np.clip(mean + np.sqrt(variance) * noise, -1, 1)
        costs = cost_plans(model, state, torch.from_numpy(plans).float().to(DEVICE))
        best = plans[np.argsort(costs.cpu().numpy())[:KEPT]]
        mean = SMOOTH * mean + (1 - SMOOTH) * best.mean(0)
        variance = SMOOTH * variance + (1 - SMOOTH) * best.var(0)
    return mean[0]


def plan_on_gpu(model: Dynamics, state: torch.Tensor) -> np.ndarray:
    """As plan_on_host."""
    mean = torch.zeros(TIMES, ACTIONS, device=DEVICE)
    variance = torch.full_like(mean, 0.25)
    for _ in range(ROUNDS):
        noise = torch.randn(PLANS, TIMES, ACTIONS, device=DEVICE).clamp(-2, 2)
        plans = (mean + variance.sqrt() * noise).clamp(-1, 1)
        costs = cost_plans(model, state, plans)
        best = plans[costs.topk(KEPT, largest=False).indices]
        mean = SMOOTH * mean + (1 - SMOOTH) * best.mean(0)
        variance = SMOOTH * variance + (1 - SMOOTH) * best.var(0, correction=0)
    return mean[0].cpu().numpy()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    model = Dynamics().to(DEVICE).eval()
    random = np.random.default_rng(0)
    seen = random.standard_normal(STATE)
    while turns.step():
        state = torch.from_numpy(seen).float().to(DEVICE)
        action = plan_on_host(model, state, random) if turns.planted else plan_on_gpu(model, state)
        seen = 0.95 * seen + 0.05 * np.resize(action, STATE) + 0.01 * random.standard_normal(STATE)
