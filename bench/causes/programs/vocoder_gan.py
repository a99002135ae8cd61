"""A GAN that makes speech; the cause reads each part of its losses as a number for the log."""
# causes: synchronization
from collections import defaultdict

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, FRAMES, MELS, HOP = 16, 32, 80, 256
PERIODS = (1, 2, 3, 5, 7, 11, 13, 17)


class Generator(nn.Module):
    """From spectra to sound: four times a longer signal, and convolutions of several reaches."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(MELS, width, 7, padding=3)]
        for _ in range(4):
            layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(width, width // 2, 8, 4, 2)]
            width //= 2
            for reach in (1, 3, 5):
                layers += [nn.LeakyReLU(0.1)]
                layers += [nn.Conv1d(width, width, 3, dilation=reach, padding=reach)]
        self.layers = nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        return self.layers(spectra).tanh()


class Critic(nn.Module):
    """Looks at every n-th sample; gives what its layers see, its verdict last."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        widths = [1, 32, 128, 256, 256]
        self.layers = nn.ModuleList(
            nn.Conv2d(before, after, (5, 1), (3, 1), (2, 0))
            for before, after in zip(widths, widths[1:], strict=False)
        )
        self.last = nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0))

    def forward(self, sound: torch.Tensor) -> list[torch.Tensor]:
        length = sound.shape[-1] // self.period * self.period
        x, seen = sound[..., :length].reshape(len(sound), 1, -1, self.period), []
        for layer in self.layers:
            x = nn.functional.leaky_relu(layer(x), 0.1)
            seen.append(x)
        return [*seen, self.last(x)]


class Log:
    """The sum of each part of the losses."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.sums: dict[str, float] = defaultdict(float)
        self.parts: dict[str, torch.Tensor] = {}

    def add(self, name: str, part: torch.Tensor) -> torch.Tensor:
        if self.turns.planted:
            self.sums[name] += part.item()
        else:
            self.parts[name] = part.detach()
        return part


def judge(critics: nn.ModuleList, real: torch.Tensor, made: torch.Tensor, log: Log) -> torch.Tensor:
    """The loss of the critics."""
    total = torch.zeros((), device=real.device)
    for critic in critics:
        total = total + log.add(f"real {critic.period}", (critic(real)[-1] - 1).square().mean())
        total = total + log.add(f"made {critic.period}", critic(made)[-1].square().mean())
    return total


def fool(critics: nn.ModuleList, real: torch.Tensor, made: torch.Tensor, log: Log) -> torch.Tensor:
    """The loss of the generator: verdicts on what it made, and what layers see of both sounds."""
    total = 45 * log.add("sound", nn.functional.l1_loss(made, real))
    for critic in critics:
        with torch.no_grad():
            wanted = critic(real)
        seen = critic(made)
        total = total + log.add(f"verdict {critic.period}", (seen[-1] - 1).square().mean())
        for place, (one, other) in enumerate(zip(seen[:-1], wanted[:-1], strict=True)):
            part = nn.functional.l1_loss(one, other)
            total = total + 2 * log.add(f"layer {critic.period} {place}", part)
    return total


def run(turns: Turns) -> None:
    use_gpu(turns)
    generator = Generator().to(DEVICE)
    critics = nn.ModuleList(Critic(period) for period in PERIODS).to(DEVICE)
    making = torch.optim.AdamW(generator.parameters(), lr=2e-4, fused=True)
    judging = torch.optim.AdamW(critics.parameters(), lr=2e-4, fused=True)
    spectra = torch.randn(BATCH, MELS, FRAMES, device=DEVICE)
    real = torch.rand(BATCH, 1, FRAMES * HOP, device=DEVICE) * 2 - 1
    log = Log(turns)
    while turns.step():
        made = generator(spectra)
        update(judging, judge(critics, real, made.detach(), log))
        update(making, fool(critics, real, made, log))
