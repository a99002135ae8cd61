"""Segmentation of scans in three dimensions in bf16; the cause keeps scans in NCDHW.

The fix is `channels_last_3d` of the model and of the scans.
"""
# causes: channels_first
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, ORGANS = 2, 96, 32, 14


def make_pair(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride, padding=1), nn.BatchNorm3d(outputs), nn.ReLU(),
        nn.Conv3d(outputs, outputs, 3, padding=1), nn.BatchNorm3d(outputs), nn.ReLU(),
    )  # fmt: skip


class Segmenter(nn.Module):
    """A U-Net of three levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = make_pair(8, WIDTH), make_pair(WIDTH, 2 * WIDTH, 2)
        self.middle = make_pair(2 * WIDTH, 4 * WIDTH, 2)
        self.grow2 = nn.ConvTranspose3d(4 * WIDTH, 2 * WIDTH, 2, 2)
        self.grow1 = nn.ConvTranspose3d(2 * WIDTH, WIDTH, 2, 2)
        self.up2, self.up1 = make_pair(4 * WIDTH, 2 * WIDTH), make_pair(2 * WIDTH, WIDTH)
        self.head = nn.Conv3d(WIDTH, ORGANS, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = self.down1(x)
        two = self.down2(one)
        x = self.up2(torch.cat([self.grow2(self.middle(two)), two], 1))
        return self.head(self.up1(torch.cat([self.grow1(x), one], 1)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    scans = torch.rand(BATCH, 8, SIZE, SIZE, SIZE, device=DEVICE)
    organs = torch.randint(ORGANS, (BATCH, SIZE, SIZE, SIZE), device=DEVICE)
    variants = {}
    for is_first in (True, False):
        order = torch.contiguous_format if is_first else torch.channels_last_3d
        model = Segmenter().to(DEVICE, memory_format=order)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        variants[is_first] = model, optimizer, scans.contiguous(memory_format=order)
    while turns.step():
        model, optimizer, batch = variants[turns.planted]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(batch)
        update(optimizer, nn.functional.cross_entropy(logits.float(), organs))
