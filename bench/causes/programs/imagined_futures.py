"""An agent that learns from futures that its world model imagines (as Dreamer), launched from Python.

The fix replays the update as a CUDA graph.
"""
# causes: host_bound, tiny_kernels
import copy

import torch
import torch.nn.functional as F
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

STARTS, HORIZON = 768, 15
MEMORY, GROUPS, CHOICES, ACTIONS, HIDDEN, DEPTH = 512, 32, 16, 6, 512, 3
STOCHASTIC = GROUPS * CHOICES
DISCOUNT, LAMBDA, ENTROPY = 0.997, 0.95, 3e-4


def make_mlp(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for number in range(DEPTH):
        layers += [nn.Linear(HIDDEN if number else inputs, HIDDEN), nn.LayerNorm(HIDDEN), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, outputs))


class WorldModel(nn.Module):
    """What follows an action, and how good that is."""

    def __init__(self) -> None:
        super().__init__()
        self.join = nn.Sequential(nn.Linear(STOCHASTIC + ACTIONS, HIDDEN), nn.SiLU())
        self.cell = nn.GRUCell(HIDDEN, MEMORY)
        self.prior = make_mlp(MEMORY, STOCHASTIC)
        self.reward = make_mlp(MEMORY + STOCHASTIC, 1)
        self.goes_on = make_mlp(MEMORY + STOCHASTIC, 1)

    def imagine(
        self, memory: torch.Tensor, state: torch.Tensor, action: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        memory = self.cell(self.join(torch.cat([state, action], dim=-1)), memory)
        logits = self.prior(memory).view(-1, GROUPS, CHOICES)
        state = F.gumbel_softmax(logits, hard=True)
        return memory, state.flatten(1)


class Agent:
    """Actor, critic, a critic that stays behind, and the optimizer."""

    def __init__(self) -> None:
        self.world = WorldModel().to(DEVICE).requires_grad_(False)
        self.actor = make_mlp(MEMORY + STOCHASTIC, ACTIONS).to(DEVICE)
        self.critic = make_mlp(MEMORY + STOCHASTIC, 1).to(DEVICE)
        self.old_critic = copy.deepcopy(self.critic).requires_grad_(False)
        weights = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(weights, lr=3e-5, capturable=True)
        self.memories = torch.randn(STARTS, MEMORY, device=DEVICE).tanh()
        chosen = torch.randint(CHOICES, (STARTS, GROUPS), device=DEVICE)
        self.states = F.one_hot(chosen, CHOICES).float().flatten(1)

    def roll_out(self) -> tuple[torch.Tensor, ...]:
        """Rewards, chances to go on, values by both critics, and entropies of imagined times."""
        memory, state = self.memories, self.states
        seen = []
        for _ in range(HORIZON):
            place = torch.cat([memory, state], dim=-1)
            logits = self.actor(place)
            logs = F.log_softmax(logits, dim=-1)
            action = F.gumbel_softmax(logits, hard=True)
            memory, state = self.world.imagine(memory, state, action)
            ahead = torch.cat([memory, state], dim=-1)
            going = DISCOUNT * torch.sigmoid(self.world.goes_on(ahead))
            entropy = -(logs.exp() * logs).sum(-1, keepdim=True)
            values = self.old_critic(ahead), self.critic(ahead.detach())
            seen.append((self.world.reward(ahead), going, *values, entropy))
        return tuple(torch.stack(values) for values in zip(*seen, strict=True))

    def update(self) -> None:
        rewards, going, values, guesses, entropies = self.roll_out()
        future = values[-1]
        returns = []
        for time in reversed(range(HORIZON)):
            mixed = (1 - LAMBDA) * values[time] + LAMBDA * future
            future = rewards[time] + going[time] * mixed
            returns.append(future)
        targets = torch.stack(returns[::-1])
        actor_loss = -(targets.mean() + ENTROPY * entropies.mean())
        critic_loss = F.mse_loss(guesses[:-1], targets[1:].detach())
        self.optimizer.zero_grad(set_to_none=True)
        (actor_loss + critic_loss).backward()
        self.optimizer.step()


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    run_eager_or_graph(turns, Agent().update)
