"""Heights of terrain drawn by a residual GAN; the cause is `empty_cache()` after each step, against a lack of memory.

The fix leaves the allocator alone.
"""
# causes: allocation
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, LATENT, STORED = 48, 128, 256, 192
WIDTHS = (512, 512, 256, 128, 64)


class Up(nn.Module):
    """A residual block that doubles the side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        y = self.conv1(F.relu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.relu(self.norm2(y)))


class Down(nn.Module):
    """A residual block that halves the side."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv2(F.leaky_relu(self.conv1(F.leaky_relu(x, 0.2)), 0.2))
        return F.avg_pool2d(self.skip(x) + y, 2)


class Generator(nn.Module):
    """Noise to a map of heights."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Linear(LATENT, WIDTHS[0] * 16)
        self.blocks = nn.Sequential(
            *(Up(*pair) for pair in zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False))
        )
        self.end = nn.Sequential(
            nn.BatchNorm2d(WIDTHS[-1]), nn.ReLU(), nn.Conv2d(WIDTHS[-1], 1, 3, padding=1), nn.Tanh()
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        x = self.start(z).view(-1, WIDTHS[0], 4, 4)
        return self.end(self.blocks(x.contiguous(memory_format=torch.channels_last)))


class Critic(nn.Module):
    """A map of heights to a score."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, *reversed(WIDTHS))
        self.blocks = nn.Sequential(
            *(Down(*pair) for pair in zip(widths, widths[1:], strict=False))
        )
        self.end = nn.Linear(WIDTHS[0], 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.end(F.relu(self.blocks(x)).sum((2, 3)))


class Gan:
    """Trains the two networks in turns by the hinge loss."""

    def __init__(self) -> None:
        self.generator = Generator().to(DEVICE, memory_format=torch.channels_last)
        self.critic = Critic().to(DEVICE, memory_format=torch.channels_last)
        self.for_generator, self.for_critic = (
            torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.0, 0.9), fused=True)
            for model in (self.generator, self.critic)
        )

    def train_critic(self, real: torch.Tensor) -> None:
        z = torch.randn(len(real), LATENT, device=DEVICE)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                drawn = self.generator(z)
            loss = F.relu(1 - self.critic(real)).mean() + F.relu(1 + self.critic(drawn)).mean()
        self.for_critic.zero_grad(set_to_none=True)
        loss.backward()
        self.for_critic.step()

    def train_generator(self, count: int) -> None:
        z = torch.randn(count, LATENT, device=DEVICE)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = -self.critic(self.generator(z)).mean()
        self.for_generator.zero_grad(set_to_none=True)
        loss.backward()
        self.for_generator.step()


def run(turns: Turns) -> None:
    use_gpu(turns)
    gan = Gan()
    heights = torch.rand(STORED, 1, SIDE, SIDE, device=DEVICE) * 2 - 1
    first = 0
    while turns.step():
        real = heights[first : first + BATCH].contiguous(memory_format=torch.channels_last)
        first = (first + BATCH) % STORED
        gan.train_critic(real)
        gan.train_generator(BATCH)
        if turns.planted:
            torch.cuda.empty_cache()
