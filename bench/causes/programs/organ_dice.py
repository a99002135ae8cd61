"""Organs in scans by a 3-D U-Net with losses at three sizes; the cause asks whether each organ is there.

An organ that the scan lacks has no part in the loss. The fix gives it the weight 0 instead.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, ORGANS, WIDTHS, SIZES = 2, 96, 13, (32, 64, 128, 256), 3


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (inputs, outputs):
        layers += [nn.Conv3d(width, outputs, 3, padding=1), nn.InstanceNorm3d(outputs), nn.LeakyReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Scores of the organs, from the finest size to the coarsest."""

    def __init__(self) -> None:
        super().__init__()
        pairs = list(zip((1, *WIDTHS[:-1]), WIDTHS, strict=True))
        self.down = nn.ModuleList(convolve(*pair) for pair in pairs)
        self.rise = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairs[:0:-1])
        self.up = nn.ModuleList(convolve(2 * a, a) for a, _ in pairs[:0:-1])
        self.heads = nn.ModuleList(nn.Conv3d(a, ORGANS + 1, 1) for a, _ in pairs[:0:-1])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        kept = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool3d(x, 2) if level else x)
            kept.append(x)
        scores = []
        for rise, block, head, beside in zip(self.rise, self.up, self.heads, kept[-2::-1], strict=True):
            x = block(torch.cat([rise(x), beside], 1))
            scores.append(head(x))
        return scores[::-1]


def add_dice(scores: torch.Tensor, organs: torch.Tensor, turns: Turns) -> torch.Tensor:
    """The sum of the Dice losses of all organs that are there."""
    shares = scores.float().softmax(1)
    total = shares.new_zeros(())
    for organ in range(1, ORGANS + 1):
        mask = (organs == organ).float()
        size = mask.sum()
        if turns.planted and size == 0:
            continue
        share = shares[:, organ]
        dice = 2 * (share * mask).sum() / (share.sum() + size + 1e-5)
        total = total + (1 - dice) * (size > 0)
    return total


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cudnn.benchmark = True
    model = UNet().to(DEVICE, memory_format=torch.channels_last_3d)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scans = torch.rand(BATCH, 1, SIZE, SIZE, SIZE, device=DEVICE)
    organs = torch.randint(ORGANS + 1, (BATCH, SIZE, SIZE, SIZE), device=DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(scans)
        losses = [
            add_dice(each, organs[:, :: 2**level, :: 2**level, :: 2**level], turns)
            for level, each in enumerate(scores)
        ]
        update(optimizer, torch.stack(losses).mean())
