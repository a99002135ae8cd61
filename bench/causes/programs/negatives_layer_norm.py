"""A NAFNet mends scans of old negatives; the cause is its LayerNorm2d by mean, variance and root.

The fix is `layer_norm` over the channels, which lie side by side in channels-last pictures.
"""

# causes: unfused_elementwise
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, BLOCKS = 12, 192, 64, 6


class Norm(nn.Module):
    """A norm over the channels of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor, by_hand: bool) -> torch.Tensor:
        if not by_hand:
            y = nn.functional.layer_norm(x.permute(0, 2, 3, 1), (WIDTH,), self.weight, self.bias)
            return y.permute(0, 3, 1, 2)
        x = x.float()
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / (variance + 1e-5).sqrt()
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Mixer(nn.Module):
    """A block without activations: halves of the channels multiply each other."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(), Norm()
        self.widen, self.grow = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(WIDTH, 2 * WIDTH, 1)
        self.near = nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1, groups=2 * WIDTH)
        self.weigh = nn.Conv2d(WIDTH, WIDTH, 1)
        self.join, self.shrink = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1)

    def forward(self, x: torch.Tensor, by_hand: bool) -> torch.Tensor:
        left, right = self.near(self.widen(self.norm1(x, by_hand))).chunk(2, dim=1)
        y = left * right
        y = y * self.weigh(y.mean(dim=(2, 3), keepdim=True))
        x = x + self.join(y)
        left, right = self.grow(self.norm2(x, by_hand)).chunk(2, dim=1)
        return x + self.shrink(left * right)


class Mender(nn.Module):
    """Scans to scans without scratches."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.leave = nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.blocks = nn.ModuleList(Mixer() for _ in range(BLOCKS))

    def forward(self, scans: torch.Tensor, by_hand: bool) -> torch.Tensor:
        x = self.enter(scans)
        for block in self.blocks:
            x = block(x, by_hand)
        return scans + self.leave(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Mender().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    clean = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    clean = clean.contiguous(memory_format=torch.channels_last)
    scans = clean + 0.1 * torch.randn_like(clean)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            mended = model(scans, turns.planted)
        update(optimizer, nn.functional.l1_loss(mended.float(), clean))
