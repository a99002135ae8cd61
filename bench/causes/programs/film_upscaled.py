"""Frames of a film enlarged by an ESRGAN in half precision; the cause keeps them in NCHW.

cuDNN's half precision kernels want the channels last, so each convolution turns its input and its
output around. The fix is `channels_last` for the model and the frames.
"""

# causes: channels_first
import copy

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

FRAMES, SIZE, WIDTH, GROWTH, BLOCKS = 2, 256, 64, 32, 6


class Dense(nn.Module):
    """Five convolutions, each of which sees all before."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(WIDTH + GROWTH * i, GROWTH if i < 4 else WIDTH, 3, padding=1)
            for i in range(5)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [x]
        for layer in self.layers[:-1]:
            new = layer(torch.cat(seen, 1))
            seen.append(nn.functional.leaky_relu_(new, 0.2))
        return x + 0.2 * self.layers[-1](torch.cat(seen, 1))


class DenseInDense(nn.Module):
    """Three dense parts beside a path without any."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(*(Dense() for _ in range(3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.2 * self.parts(x)


class Enlarger(nn.Module):
    """Frames of four times the size, as ESRGAN makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.body = nn.Sequential(*(DenseInDense() for _ in range(BLOCKS)))
        self.middle = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.larger = nn.ModuleList(nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))
        self.late = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        x = self.first(frames)
        x = x + self.middle(self.body(x))
        for layer in self.larger:
            x = layer(nn.functional.interpolate(x, scale_factor=2, mode="nearest"))
            x = nn.functional.leaky_relu_(x, 0.2)
        return self.last(nn.functional.leaky_relu_(self.late(x), 0.2))


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    first = Enlarger().to(DEVICE, torch.float16).eval()
    last = copy.deepcopy(first).to(memory_format=torch.channels_last)
    film = torch.randint(256, (16, FRAMES, 3, SIZE, SIZE), dtype=torch.uint8, device=DEVICE)
    large = torch.empty(FRAMES, 3, 4 * SIZE, 4 * SIZE, dtype=torch.uint8, device=DEVICE)
    taken = 0
    while turns.step():
        frames = film[taken % len(film)].half() / 255
        if turns.planted:
            enlarged = first(frames)
        else:
            enlarged = last(frames.to(memory_format=torch.channels_last))
        large.copy_(enlarged.float().clamp(0, 1).mul(255))
        taken += 1
