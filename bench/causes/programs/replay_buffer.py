"""Q-learning from images; the cause keeps the replay buffer in Python and stacks its batches."""
# causes: idle, pageable_copy
import random
from collections import deque

import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BUFFER, BATCH, SIZE, ACTIONS, WIDTHS = 6000, 384, 84, 6, (64, 128, 128)


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.first(x.relu()).relu())


def make_network() -> nn.Module:
    """The residual network of IMPALA: four frames to the value of each action."""
    layers: list[nn.Module] = []
    for before, width in zip((4, *WIDTHS), WIDTHS, strict=False):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        layers += [Residual(width), Residual(width)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(ACTIONS))


class HostBuffer:
    """Transitions as tuples of NumPy arrays."""

    def __init__(self, frames: np.ndarray) -> None:
        self.rows = deque(
            (frames[i], i % ACTIONS, float(i % 7 == 0), frames[i + 1]) for i in range(BUFFER)
        )

    def sample(self) -> list[torch.Tensor]:
        columns = zip(*random.sample(self.rows, BATCH), strict=True)
        return [torch.from_numpy(np.stack(column)).to(DEVICE) for column in columns]


class DeviceBuffer:
    """The same transitions as tensors on the GPU."""

    def __init__(self, frames: np.ndarray) -> None:
        numbers = torch.arange(BUFFER, device=DEVICE)
        self.frames = torch.from_numpy(frames).to(DEVICE)
        self.actions, self.rewards = numbers % ACTIONS, (numbers % 7 == 0).double()

    def sample(self) -> list[torch.Tensor]:
        rows = torch.randint(BUFFER, (BATCH,), device=DEVICE)
        return [self.frames[rows], self.actions[rows], self.rewards[rows], self.frames[rows + 1]]


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    shape = (BUFFER + 1, 4, SIZE, SIZE)
    frames = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    on_host, on_device = HostBuffer(frames), DeviceBuffer(frames)
    online, target = make_network().to(DEVICE), make_network().to(DEVICE)
    online(torch.zeros(1, *shape[1:], device=DEVICE))
    target(torch.zeros(1, *shape[1:], device=DEVICE))
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4, fused=True)
    while turns.step():
        states, actions, rewards, following = (on_host if turns.planted else on_device).sample()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            with torch.no_grad():
                best = target(following.float() / 255).amax(-1)
            values = online(states.float() / 255).gather(1, actions[:, None])[:, 0]
        wanted = rewards.float() + 0.99 * best.float()
        update(optimizer, nn.functional.smooth_l1_loss(values.float(), wanted))
