"""PPO on simulated robots; the cause adds up advantages time by time, in small kernels."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

TIMES, ROBOTS, STATE, ACTIONS, WIDTH, EPOCHS = 256, 1024, 48, 12, 512, 2
DISCOUNT, TRACE = 0.99, 0.95


def make_layers(after: int) -> nn.Sequential:
    first, second = nn.Linear(STATE, WIDTH), nn.Linear(WIDTH, WIDTH)
    return nn.Sequential(first, nn.ELU(), second, nn.ELU(), nn.Linear(WIDTH, after))


def add_up_in_turn(
    rewards: torch.Tensor, values: torch.Tensor, goes_on: torch.Tensor
) -> torch.Tensor:
    """The advantage of each time and robot, from the last time to the first."""
    advantages, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
    for time in reversed(range(TIMES)):
        error = rewards[time] + DISCOUNT * values[time + 1] * goes_on[time] - values[time]
        last = error + DISCOUNT * TRACE * goes_on[time] * last
        advantages[time] = last
    return advantages


def add_up_at_once(
    rewards: torch.Tensor, values: torch.Tensor, goes_on: torch.Tensor
) -> torch.Tensor:
    """The same by sums over 1, 2, 4, … times."""
    sums = rewards + DISCOUNT * values[1:] * goes_on - values[:-1]
    weights, distance = DISCOUNT * TRACE * goes_on, 1
    while distance < TIMES:
        later = torch.zeros_like(sums)
        later[:-distance] = sums[distance:]
        sums = sums + weights * later
        later = torch.zeros_like(weights)
        later[:-distance] = weights[distance:]
        weights, distance = weights * later, 2 * distance
    return sums


def run(turns: Turns) -> None:
    use_gpu(turns)
    actor, critic = make_layers(ACTIONS).to(DEVICE), make_layers(1).to(DEVICE)
    weights = [*actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(weights, lr=1e-4, fused=True)
    states = torch.randn(TIMES + 1, ROBOTS, STATE, device=DEVICE)
    actions = torch.randn(TIMES, ROBOTS, ACTIONS, device=DEVICE)
    rewards = torch.rand(TIMES, ROBOTS, device=DEVICE)
    goes_on = (torch.rand(TIMES, ROBOTS, device=DEVICE) > 0.01).float()
    while turns.step():
        with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            values = critic(states).squeeze(-1).float()
            before = (actor(states[:-1]).float() - actions).square().sum(-1)
        add_up = add_up_in_turn if turns.planted else add_up_at_once
        advantages = add_up(rewards, values, goes_on)
        goals = advantages + values[:-1]
        advantages = (advantages - advantages.mean()) / advantages.std()
        for _ in range(EPOCHS):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                means, guesses = actor(states[:-1]).float(), critic(states[:-1]).float()
            ratio = (0.5 * (before - (means - actions).square().sum(-1))).clamp(-5, 5).exp()
            gain = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
            loss = (guesses.squeeze(-1) - goals).square().mean() - gain.mean()
            update(optimizer, loss)
