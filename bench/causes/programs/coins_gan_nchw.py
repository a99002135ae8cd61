"""Worn coins made new by pix2pix, a GAN of a U-Net, in bf16; the cause keeps images in NCHW.

The fix gives both networks images in channels_last.
"""

# causes: channels_first
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, LIKENESS = 24, 256, 100.0
WIDTHS = (64, 128, 256, 512, 512, 512)


def shrink(before: int, after: int, stride: int = 2) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 4, stride, 1, bias=False), nn.BatchNorm2d(after),
        nn.LeakyReLU(0.2, inplace=True),
    )  # fmt: skip


def grow(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False), nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )  # fmt: skip


class Restorer(nn.Module):
    """A U-Net of six levels."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (3, *WIDTHS)
        self.down = nn.ModuleList(map(shrink, sizes[:-1], sizes[1:]))
        up = [(WIDTHS[-1], WIDTHS[-2])]
        up += [(2 * WIDTHS[level], WIDTHS[level - 1]) for level in range(4, 0, -1)]
        self.up = nn.ModuleList(grow(before, after) for before, after in up)
        self.last = nn.ConvTranspose2d(2 * WIDTHS[0], 3, 4, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = []
        for layer in self.down:
            x = layer(x)
            levels.append(x)
        x = levels.pop()
        for layer in self.up:
            x = torch.cat([layer(x), levels.pop()], 1)
        return torch.tanh(self.last(x))


def make_judge() -> nn.Module:
    """Tells real pairs from made ones, patch by patch."""
    return nn.Sequential(
        nn.Conv2d(6, 64, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), shrink(64, 128),
        shrink(128, 256), shrink(256, 512, 1), nn.Conv2d(512, 1, 4, 1, 1),
    )  # fmt: skip


def compare(scores: torch.Tensor, real: bool) -> torch.Tensor:
    return nn.functional.mse_loss(scores.float(), torch.full_like(scores.float(), float(real)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    restorer, judge = Restorer().to(DEVICE), make_judge().to(DEVICE)
    optimizers = [
        torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
        for net in (restorer, judge)
    ]
    pairs = torch.rand(2, BATCH, 3, SIZE, SIZE, device=DEVICE) * 2 - 1
    while turns.step():
        layout = torch.contiguous_format if turns.planted else torch.channels_last
        worn, new = (images.contiguous(memory_format=layout) for images in pairs)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            made = restorer(worn)
            told = judge(torch.cat([worn, made.detach()], 1)), judge(torch.cat([worn, new], 1))
        update(optimizers[1], (compare(told[0], False) + compare(told[1], True)) / 2)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = judge(torch.cat([worn, made], 1))
        loss = compare(scores, True) + LIKENESS * nn.functional.l1_loss(made.float(), new)
        update(optimizers[0], loss)
