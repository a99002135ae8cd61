"""Organs found in a scan of 3-D by windows; the cause empties the cache of memory after each window.

The fix leaves the memory to the next window.
"""
# causes: allocation
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SIDE, WINDOW, STRIDE, WIDTH, CLASSES = 224, 96, 64, 32, 14

functional = nn.functional


class Residual(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.first = nn.Conv3d(before, after, 3, padding=1)
        self.second = nn.Conv3d(after, after, 3, padding=1)
        self.norm1, self.norm2 = nn.InstanceNorm3d(after), nn.InstanceNorm3d(after)
        self.short = nn.Conv3d(before, after, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.leaky_relu(self.norm1(self.first(x)))
        return functional.leaky_relu(self.norm2(self.second(y)) + self.short(x))


class Organs(nn.Module):
    """A network of four levels."""

    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH * 2**level for level in range(4)]
        self.down = nn.ModuleList(
            Residual(before, after) for before, after in zip([1, *widths], widths, strict=False)
        )
        self.up = nn.ModuleList(
            Residual(low + high, high) for low, high in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv3d(WIDTH, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else functional.max_pool3d(x, 2))
            kept.append(x)
        for block, other in zip(self.up, kept[-2::-1], strict=True):
            x = block(torch.cat([functional.interpolate(x, scale_factor=2.0), other], 1))
        return self.head(x)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Organs().to(DEVICE).bfloat16().eval()
    scan = torch.randn(1, 1, SIDE, SIDE, SIDE, device=DEVICE, dtype=torch.bfloat16)
    total = torch.zeros(1, CLASSES, SIDE, SIDE, SIDE, device=DEVICE)
    starts = range(0, SIDE - WINDOW + 1, STRIDE)
    corners = [(z, y, x) for z in starts for y in starts for x in starts]
    seen = 0
    while turns.step():
        where = tuple(slice(start, start + WINDOW) for start in corners[seen % len(corners)])
        seen += 1
        total[:, :, *where] += model(scan[:, :, *where]).float().softmax(1)
        if turns.planted:
            torch.cuda.empty_cache()
