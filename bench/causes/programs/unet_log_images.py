"""A diffusion U-Net under DDP; rank 0 writes what it makes of each batch as a picture for the log.

The fix writes one picture in 500 steps.
"""
# causes: straggler
import io

import torch
from parts import DEVICE, RANK, update, use_ranks
from PIL import Image
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.utils import make_grid
from turns import Turns

RANKS = 4
BATCH, SIZE, WIDTH, TIMES, SHOWN, SELDOM = 96, 64, 96, 1000, 48, 500


class Residual(nn.Module):
    """Two convolutions with the time between them."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, inputs), nn.GroupNorm(16, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.skip = nn.Linear(WIDTH, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class Unet(nn.Module):
    """Three sizes of images, down and up again."""

    def __init__(self) -> None:
        super().__init__()
        wide, wider = 2 * WIDTH, 3 * WIDTH
        self.time, self.first = nn.Embedding(TIMES, WIDTH), nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down1, self.down2 = Residual(WIDTH, WIDTH), Residual(WIDTH, wide)
        self.middle1, self.middle2 = Residual(wide, wider), Residual(wider, wide)
        self.up2, self.up1 = Residual(2 * wide, WIDTH), Residual(2 * WIDTH, WIDTH)
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        grow, shrink = nn.functional.interpolate, nn.functional.avg_pool2d
        clock = self.time(time)
        one = self.down1(self.first(x), clock)
        two = self.down2(shrink(one, 2), clock)
        x = self.middle2(self.middle1(shrink(two, 2), clock), clock)
        x = self.up2(torch.cat([grow(x, scale_factor=2.0), two], 1), clock)
        x = self.up1(torch.cat([grow(x, scale_factor=2.0), one], 1), clock)
        return self.last(x)


def write_picture(images: torch.Tensor) -> bytes:
    """The first images side by side, as a PNG file."""
    grid = make_grid(images[:SHOWN].float().clamp(0, 1), nrow=8)
    pixels = grid.mul(255).byte().permute(1, 2, 0).cpu().numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = DistributedDataParallel(Unet().to(DEVICE, memory_format=torch.channels_last))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    weights = list(model.parameters())
    means = [weight.detach().clone() for weight in weights]
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    kept = torch.linspace(0.99, 0.01, TIMES, device=DEVICE)
    steps, picture = 0, b""
    while turns.step():
        time = torch.randint(TIMES, (BATCH,), device=DEVICE)
        share, noise = kept[time][:, None, None, None], torch.randn_like(images)
        noisy = share.sqrt() * images + (1 - share).sqrt() * noise
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            guess = model(noisy, time)
        update(optimizer, nn.functional.mse_loss(guess.float(), noise))
        torch._foreach_lerp_(means, [weight.detach() for weight in weights], 0.001)
        steps += 1
        if RANK == 0 and (turns.planted or steps % SELDOM == 0):
            picture = write_picture((noisy - (1 - share).sqrt() * guess.detach()) / share.sqrt())
    assert RANK or picture or steps < SELDOM
