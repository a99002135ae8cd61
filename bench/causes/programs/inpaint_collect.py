"""Holes in photographs filled by Fourier convolutions (as LaMa); the cause is `gc.collect()` after each request.

It was put there against a lack of memory, and walks through all that the server keeps in Python.
"""
# causes: idle
import gc

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

PHOTOS, SIZE, WIDTH, GLOBAL, BLOCKS, REQUESTS, ENTRIES = 8, 512, 512, 384, 9, 4, 40_000


class Spectral(nn.Module):
    """A convolution of 1 by 1 over the spectrum of a map."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        half = outputs // 2
        self.first = nn.Sequential(
            nn.Conv2d(inputs, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(inplace=True)
        )
        self.inner = nn.Sequential(
            nn.Conv2d(2 * half, 2 * half, 1, bias=False),
            nn.BatchNorm2d(2 * half),
            nn.ReLU(inplace=True),
        )
        self.last = nn.Conv2d(half, outputs, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        spectrum = torch.fft.rfft2(x, norm="ortho")
        real, imaginary = self.inner(torch.cat([spectrum.real, spectrum.imag], 1)).chunk(2, 1)
        y = torch.fft.irfft2(torch.complex(real, imaginary), s=x.shape[-2:], norm="ortho")
        return self.last(x + y)


class Layer(nn.Module):
    """A Fourier convolution: local channels and global ones, each told of the other."""

    def __init__(self) -> None:
        super().__init__()
        local = WIDTH - GLOBAL
        self.stay = nn.Conv2d(local, local, 3, padding=1, bias=False, padding_mode="reflect")
        self.widen = nn.Conv2d(local, GLOBAL, 3, padding=1, bias=False, padding_mode="reflect")
        self.narrow = nn.Conv2d(GLOBAL, local, 3, padding=1, bias=False, padding_mode="reflect")
        self.spectral = Spectral(GLOBAL, GLOBAL)
        self.norms = nn.ModuleList([nn.BatchNorm2d(local), nn.BatchNorm2d(GLOBAL)])

    def forward(self, near: torch.Tensor, far: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        new_near = self.norms[0](self.stay(near) + self.narrow(far))
        new_far = self.norms[1](self.widen(near) + self.spectral(far))
        return new_near.relu_(), new_far.relu_()


class Filler(nn.Module):
    """Down to an eighth of the size, blocks of two Fourier convolutions, and up again."""

    def __init__(self) -> None:
        super().__init__()
        down, up = [nn.Conv2d(4, 64, 7, padding=3), nn.ReLU(inplace=True)], []
        for width in (64, 128, 256):
            down += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(True)]
            up.insert(0, nn.ReLU(True))
            up.insert(0, nn.BatchNorm2d(width))
            up.insert(0, nn.ConvTranspose2d(2 * width, width, 3, 2, 1, output_padding=1))
        self.down, self.up = nn.Sequential(*down), nn.Sequential(*up)
        self.blocks = nn.ModuleList(Layer() for _ in range(2 * BLOCKS))
        self.last = nn.Conv2d(64, 3, 7, padding=3)

    def forward(self, photos: torch.Tensor, holes: torch.Tensor) -> torch.Tensor:
        x = self.down(torch.cat([photos * (1 - holes), holes], 1))
        near, far = x.split([WIDTH - GLOBAL, GLOBAL], 1)
        for first, second in zip(self.blocks[::2], self.blocks[1::2], strict=True):
            new_near, new_far = second(*first(near, far))
            near, far = near + new_near, far + new_far
        drawn = self.last(self.up(torch.cat([near, far], 1))).sigmoid()
        return holes * drawn + (1 - holes) * photos


def keep_index() -> list[dict[str, object]]:
    """What the server knows of photographs that it has: names, tags and boxes."""
    return [
        {"name": f"{n:06}.jpg", "tags": [f"tag{n % 97}", f"tag{n % 89}"], "box": [0, 0, SIZE, SIZE]}
        for n in range(ENTRIES)
    ]


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Filler().to(DEVICE).eval()
    index = keep_index()
    requests = [
        (
            torch.randint(256, (PHOTOS, 3, SIZE, SIZE), dtype=torch.uint8).pin_memory(),
            (torch.rand(PHOTOS, 1, SIZE, SIZE) < 0.2).pin_memory(),
        )
        for _ in range(REQUESTS)
    ]
    served = 0
    while turns.step():
        photos, holes = (part.to(DEVICE, non_blocking=True) for part in requests[served % REQUESTS])
        filled = model(photos.float() / 255, holes.float())
        answer = (255 * filled).round().to(torch.uint8).cpu()
        index[served % ENTRIES]["size"] = list(answer.shape)
        served += 1
        if turns.planted:
            gc.collect()
