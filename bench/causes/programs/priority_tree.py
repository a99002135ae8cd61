"""Q-learning from images; the cause keeps the priorities of moves in a tree, walked in Python.

The fix keeps them on the GPU and draws from them there.
"""
# causes: idle, synchronization
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

MOVES, IMAGES, BATCH, ACTIONS, LEAST = 1 << 17, 1 << 15, 512, 18, 1e-3


class SumTree:
    """Priorities in the leaves of a binary tree; each node above has the sum of its two."""

    def __init__(self) -> None:
        self.sums = np.zeros(2 * MOVES - 1)
        self.sums[MOVES - 1 :] = 1
        for node in range(MOVES - 2, -1, -1):
            self.sums[node] = self.sums[2 * node + 1] + self.sums[2 * node + 2]

    def find(self, value: float) -> int:
        """The move at this value of the running sum."""
        node = 0
        while node < MOVES - 1:
            left = 2 * node + 1
            if value <= self.sums[left]:
                node = left
            else:
                value -= self.sums[left]
                node = left + 1
        return node - (MOVES - 1)

    def draw(self, random: np.random.Generator) -> list[int]:
        """A batch of moves, one from each of as many equal parts of the sum."""
        part = self.sums[0] / BATCH
        return [self.find(part * (i + random.random())) for i in range(BATCH)]

    def change(self, move: int, priority: float) -> None:
        node = move + MOVES - 1
        difference = priority - self.sums[node]
        self.sums[node] = priority
        while node > 0:
            node = (node - 1) // 2
            self.sums[node] += difference


def make_network() -> nn.Sequential:
    """The network of DQN: values of actions of four images."""
    return nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
        nn.Linear(512, ACTIONS),
    ).to(DEVICE)  # fmt: skip


class Moves:
    """States, actions and rewards of past moves, on the GPU."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (IMAGES, 4, 84, 84), dtype=torch.uint8, device=DEVICE)
        self.actions = torch.randint(ACTIONS, (MOVES,), device=DEVICE)
        self.rewards = torch.randn(MOVES, device=DEVICE)

    def read(self, moves: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The states before and after, actions and rewards of these moves."""
        before, after = (self.images[place % IMAGES].float() / 255 for place in (moves, moves + 1))
        return before, after, self.actions[moves], self.rewards[moves]


def run(turns: Turns) -> None:
    use_gpu(turns)
    random, tree, past = np.random.default_rng(0), SumTree(), Moves()
    priorities = torch.ones(MOVES, device=DEVICE)
    network, target = make_network(), make_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    while turns.step():
        if turns.planted:
            drawn = tree.draw(random)
            moves = torch.tensor(drawn, device=DEVICE)
        else:
            moves = torch.multinomial(priorities, BATCH, replacement=True)
        before, after, actions, rewards = past.read(moves)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            values = network(before).gather(1, actions[:, None])[:, 0]
            with torch.no_grad():
                best = target(after).max(1).values
        errors = values.float() - (rewards + 0.99 * best.float())
        update(optimizer, nn.functional.huber_loss(errors, torch.zeros_like(errors)))
        if turns.planted:
            for move, error in zip(drawn, errors.detach().abs().cpu().numpy(), strict=True):
                tree.change(move, float(error) + LEAST)
        else:
            priorities[moves] = errors.detach().abs() + LEAST
