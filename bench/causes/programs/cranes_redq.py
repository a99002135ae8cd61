"""An actor learns to move cranes with twelve critics (REDQ); the cause runs the critics one by one.

The weights of all critics are stacked. The fix runs them as batched products.
"""

# causes: tiny_kernels, host_bound
from itertools import pairwise

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, STATES, ACTIONS, WIDTH, CRITICS, CHOSEN = 512, 48, 8, 256, 12, 2
UPDATES, DISCOUNT, KEPT, ENTROPY, ROWS = 6, 0.99, 0.995, 0.1, 65536


class Critics(nn.Module):
    """Values of states with actions, of each critic."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (STATES + ACTIONS, WIDTH, WIDTH, 1)
        pairs = list(pairwise(sizes))
        self.weights = nn.ParameterList(
            nn.Parameter(torch.randn(CRITICS, *pair) * pair[0] ** -0.5) for pair in pairs
        )
        self.biases = nn.ParameterList(
            nn.Parameter(torch.zeros(CRITICS, 1, after)) for _, after in pairs
        )

    def run_each(self, x: torch.Tensor) -> torch.Tensor:
        weights = [weight.unbind() for weight in self.weights]
        biases = [bias.unbind() for bias in self.biases]
        values = []
        for critic in range(CRITICS):
            y = x
            for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
                y = torch.addmm(bias[critic], y.relu() if depth else y, weight[critic])
            values.append(y)
        return torch.stack(values)

    def run_all(self, x: torch.Tensor) -> torch.Tensor:
        y = x.expand(CRITICS, *x.shape)
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            y = torch.baddbmm(bias, y.relu() if depth else y, weight)
        return y

    def forward(self, states: torch.Tensor, actions: torch.Tensor, each: bool) -> torch.Tensor:
        x = torch.cat((states, actions), dim=1)
        return self.run_each(x) if each else self.run_all(x)


class Learner:
    """The actor, the critics and their slow copies, with the moves of the past."""

    def __init__(self) -> None:
        self.actor = nn.Sequential(
            nn.Linear(STATES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, ACTIONS),
        ).to(DEVICE)  # fmt: skip
        self.critics, self.slow = Critics().to(DEVICE), Critics().to(DEVICE)
        self.slow.load_state_dict(self.critics.state_dict())
        self.actor_rate = torch.optim.Adam(self.actor.parameters(), lr=3e-4, fused=True)
        self.critics_rate = torch.optim.Adam(self.critics.parameters(), lr=3e-4, fused=True)
        self.before, self.after = torch.randn(2, ROWS, STATES, device=DEVICE)
        self.actions = torch.rand(ROWS, ACTIONS, device=DEVICE) * 2 - 1
        self.rewards = torch.rand(ROWS, 1, device=DEVICE)

    def act(self, states: torch.Tensor) -> torch.Tensor:
        means = self.actor(states)
        return (means + ENTROPY * torch.randn_like(means)).tanh()

    def learn_values(self, each: bool) -> torch.Tensor:
        """Update the critics once; the states of the batch."""
        rows = torch.randint(ROWS, (BATCH,), device=DEVICE)
        with torch.no_grad():
            after = self.after[rows]
            values = self.slow(after, self.act(after), each)
            chosen = torch.rand(CRITICS, device=DEVICE).topk(CHOSEN).indices
            least = values[chosen].amin(dim=0)
            goals = self.rewards[rows] + DISCOUNT * least
        found = self.critics(self.before[rows], self.actions[rows], each)
        self.critics_rate.zero_grad()
        (found - goals).square().mean().backward()
        self.critics_rate.step()
        slow, fast = list(self.slow.parameters()), list(self.critics.parameters())
        with torch.no_grad():
            torch._foreach_lerp_(slow, fast, 1 - KEPT)
        return self.before[rows]

    def learn_actions(self, states: torch.Tensor, each: bool) -> None:
        self.actor_rate.zero_grad()
        (-self.critics(states, self.act(states), each).mean()).backward()
        self.actor_rate.step()


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    learner = Learner()
    while turns.step():
        for _ in range(UPDATES):
            states = learner.learn_values(turns.planted)
        learner.learn_actions(states, turns.planted)
