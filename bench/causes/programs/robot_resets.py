"""Robots that learn to walk, simulated on the GPU; the cause asks in each time which of them fell.

The fix sets those that fell upright by a mask.
"""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

ROBOTS, JOINTS, HEIGHTS, WIDTH, TIMES, SUBSTEPS, TIME = 16_384, 12, 96, 1024, 24, 3, 0.005


def make_network(outputs: int) -> nn.Module:
    widths = (3 * JOINTS + HEIGHTS, WIDTH, WIDTH, WIDTH // 2)
    layers: list[nn.Module] = []
    for inputs, width in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inputs, width), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


class Robots:
    """Angles and speeds of all joints, and the last actions."""

    def __init__(self) -> None:
        shape = ROBOTS, JOINTS
        self.angles = 0.1 * torch.randn(shape, device=DEVICE)
        self.speeds, self.actions = torch.zeros(shape, device=DEVICE), torch.zeros(shape, device=DEVICE)
        self.ground = torch.randn(HEIGHTS, device=DEVICE)

    def observe(self) -> torch.Tensor:
        heights = self.ground + self.angles.mean(1, keepdim=True)
        return torch.cat([self.angles, 0.05 * self.speeds, self.actions, heights.clamp(-1, 1)], 1)

    def move(self, actions: torch.Tensor) -> torch.Tensor:
        """A reward for each robot."""
        self.actions = actions
        for _ in range(SUBSTEPS):
            torques = (20 * (0.25 * actions - self.angles) - 0.5 * self.speeds).clamp(-30, 30)
            self.speeds = self.speeds + TIME * (torques - 9.81 * self.angles.sin())
            self.angles = self.angles + TIME * self.speeds
        return self.speeds[:, 0] - 0.01 * actions.square().sum(1)

    def reset_fallen(self) -> None:
        """Ask for the numbers of the robots that fell, and set them upright."""
        fallen = self.find_fallen().nonzero().flatten()
        if len(fallen) > 0:
            self.angles[fallen] = 0.1 * torch.randn(len(fallen), JOINTS, device=DEVICE)
            self.speeds[fallen] = 0

    def reset_by_mask(self) -> None:
        fallen = self.find_fallen()[:, None]
        self.angles = torch.where(fallen, 0.1 * torch.randn_like(self.angles), self.angles)
        self.speeds = self.speeds.masked_fill(fallen, 0)

    def find_fallen(self) -> torch.Tensor:
        return self.angles.abs().amax(1) > 0.45


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    robots = Robots()
    actor, critic = make_network(JOINTS).to(DEVICE), make_network(1).to(DEVICE)
    while turns.step():
        rewards, values = [], []
        for _ in range(TIMES):
            seen = robots.observe()
            means = actor(seen)
            values.append(critic(seen))
            rewards.append(robots.move(means + torch.randn_like(means)))
            if turns.planted:
                robots.reset_fallen()
            else:
                robots.reset_by_mask()
        torch.stack(rewards).mean().item()
