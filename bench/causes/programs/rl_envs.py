"""Reinforcement learning; the cause steps environments one by one in Python between updates."""
# causes: idle
import math
import random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

ENVIRONMENTS, STATE, WIDTH, EPOCHS = 2048, 64, 2048, 2


class Pendulum:
    """A pole on a joint."""

    def __init__(self) -> None:
        self.angle, self.speed = random.random(), 0.0

    def step(self, torque: float) -> list[float]:
        for _ in range(4):
            self.speed += 0.01 * (math.sin(self.angle) + torque - 0.1 * self.speed)
            self.angle += 0.01 * self.speed
        return [self.angle, self.speed] * (STATE // 2)


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    environments = [Pendulum() for _ in range(ENVIRONMENTS)]
    layers = [nn.Linear(STATE, WIDTH), nn.Tanh()]
    for _ in range(6):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    policy = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(DEVICE)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4, fused=True)
    ready = torch.rand(ENVIRONMENTS, STATE).pin_memory()
    torques = [0.1] * ENVIRONMENTS
    while turns.step():
        states = ready
        if turns.planted:
            pairs = zip(environments, torques, strict=True)
            states = torch.tensor([one.step(torque) for one, torque in pairs]).pin_memory()
        states = states.to(DEVICE, non_blocking=True).repeat(8, 1)
        loss = torch.zeros((), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            for _ in range(EPOCHS):
                loss = loss + policy(states).float().square().mean()
        update(optimizer, loss)
