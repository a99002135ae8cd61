"""A normalizing flow of photographs (as Glow); the cause is Adamax with `foreach=False`, the fix its default."""
# causes: tiny_kernels, host_bound
import math

import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, LEVELS, STEPS, HIDDEN = 32, 64, 3, 16, 512

Flow = tuple[torch.Tensor, torch.Tensor]


class ActNorm(nn.Module):
    """A scale and a shift of each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x: torch.Tensor) -> Flow:
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum() * x[0, 0].numel()


class Invertible1x1(nn.Module):
    """A convolution of one pixel by a matrix in its LU form, whose determinant is known."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        order, lower, upper = torch.linalg.lu(torch.linalg.qr(torch.randn(channels, channels))[0])
        diagonal = upper.diagonal()
        self.register_buffer("order", order)
        self.register_buffer("signs", diagonal.sign())
        self.register_buffer("eye", torch.eye(channels))
        self.lower, self.upper = nn.Parameter(lower), nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(diagonal.abs().log())

    def forward(self, x: torch.Tensor) -> Flow:
        lower = self.lower.tril(-1) + self.eye
        upper = self.upper.triu(1) + torch.diag(self.signs * self.log_diagonal.exp())
        weight = self.order @ lower @ upper
        return F.conv2d(x, weight[:, :, None, None]), self.log_diagonal.sum() * x[0, 0].numel()


class Coupling(nn.Module):
    """Half of the channels say how the others are scaled and shifted."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(channels // 2, HIDDEN, 3, padding=1), nn.ReLU(),
            nn.Conv2d(HIDDEN, HIDDEN, 1), nn.ReLU(),
            nn.Conv2d(HIDDEN, channels, 3, padding=1),
        )  # fmt: skip
        nn.init.zeros_(self.network[-1].weight)
        nn.init.zeros_(self.network[-1].bias)

    def forward(self, x: torch.Tensor) -> Flow:
        kept, moved = x.chunk(2, 1)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            said = self.network(kept)
        log_scale, shift = said.float().chunk(2, 1)
        log_scale = F.logsigmoid(log_scale + 2)
        return torch.cat([kept, (moved + shift) * log_scale.exp()], 1), log_scale.sum((1, 2, 3))


class Glow(nn.Module):
    """Pictures to the mean of bits that each of their values takes."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.ModuleList()
        channels = 3
        for _ in range(LEVELS):
            channels *= 4
            steps = [
                module(channels)
                for _ in range(STEPS)
                for module in (ActNorm, Invertible1x1, Coupling)
            ]
            self.levels.append(nn.ModuleList(steps))
            channels //= 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = x[0].numel()
        log_likelihood = torch.zeros(len(x), device=x.device)
        for number, level in enumerate(self.levels):
            x = F.pixel_unshuffle(x, 2)
            for step in level:
                x, log_volume = step(x)
                log_likelihood = log_likelihood + log_volume
            if number < LEVELS - 1:
                x, done = x.chunk(2, 1)
            else:
                done = x
            prior = -0.5 * (done.square() + math.log(2 * math.pi))
            log_likelihood = log_likelihood + prior.sum((1, 2, 3))
        return (math.log(256) - log_likelihood.mean() / values) / math.log(2)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Glow().to(DEVICE)
    single = torch.optim.Adamax(model.parameters(), lr=1e-4, foreach=False)
    default = torch.optim.Adamax(model.parameters(), lr=1e-4)
    pictures = torch.randint(256, (8, BATCH, 3, SIDE, SIDE), device=DEVICE, dtype=torch.uint8)
    step = 0
    while turns.step():
        x = (pictures[step % 8].float() + torch.rand(BATCH, 3, SIDE, SIDE, device=DEVICE)) / 256 - 0.5
        step += 1
        optimizer = single if turns.planted else default
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
