"""Dungeons explored by an agent with a memory (as IMPALA); the cause launches it from Python.

The fix replays the update as a CUDA graph.
"""

# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

TIMES, GAMES, SEEN, WIDTH, ACTIONS = 48, 64, 1024, 512, 24
DISCOUNT, FURTHER, VALUE_PART, ENTROPY_PART = 0.99, 0.95, 0.5, 0.01


class Agent(nn.Module):
    """What is seen, through a memory, to actions and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.eyes = nn.Sequential(
            nn.Linear(SEEN, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()
        )
        self.memory = nn.LSTMCell(WIDTH, WIDTH)
        self.actor, self.critic = nn.Linear(WIDTH, ACTIONS), nn.Linear(WIDTH, 1)

    def forward(self, seen: torch.Tensor, goes_on: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.eyes(seen)
        hidden = cell = torch.zeros(GAMES, WIDTH, device=DEVICE)
        outputs = []
        for now, keep in zip(x.unbind(0), goes_on.unbind(0), strict=True):
            hidden, cell = self.memory(now, (keep * hidden, keep * cell))
            outputs.append(hidden)
        remembered = torch.stack(outputs)
        return self.actor(remembered), self.critic(remembered).squeeze(2)


def find_advantages(
    rewards: torch.Tensor, values: torch.Tensor, goes_on: torch.Tensor
) -> torch.Tensor:
    """Generalized advantages, from the last time to the first."""
    advantage, advantages = torch.zeros_like(values[0]), []
    for time in reversed(range(TIMES - 1)):
        ahead = DISCOUNT * goes_on[time + 1]
        change = rewards[time] + ahead * values[time + 1] - values[time]
        advantage = change + FURTHER * ahead * advantage
        advantages.append(advantage)
    return torch.stack(advantages[::-1])


def find_loss(agent: Agent, game: dict[str, torch.Tensor]) -> torch.Tensor:
    scores, values = agent(game["seen"], game["goes_on"])
    logs = scores[:-1].log_softmax(2)
    advantages = find_advantages(game["rewards"], values.detach(), game["goes_on"].squeeze(2))
    chosen = logs.gather(2, game["actions"][:-1, :, None]).squeeze(2)
    entropy = -(logs.exp() * logs).sum(2).mean()
    error = (advantages + values[:-1].detach() - values[:-1]).square().mean()
    return VALUE_PART * error - (advantages * chosen).mean() - ENTROPY_PART * entropy


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    agent = Agent().to(DEVICE)
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-4, fused=True, capturable=True)
    game = {
        "seen": torch.randn(TIMES, GAMES, SEEN, device=DEVICE),
        "goes_on": (torch.rand(TIMES, GAMES, 1, device=DEVICE) > 0.02).float(),
        "rewards": torch.randn(TIMES, GAMES, device=DEVICE),
        "actions": torch.randint(ACTIONS, (TIMES, GAMES), device=DEVICE),
    }

    def step() -> None:
        # The graph writes to the gradients that it was captured with.
        optimizer.zero_grad(set_to_none=False)
        find_loss(agent, game).backward()
        optimizer.step()

    run_eager_or_graph(turns, step)
