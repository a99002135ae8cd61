"""Segmentation of streets by a U-Net; the cause copies masks as an fp32 image of each class.

The fix copies the number of each pixel's class, and makes those images on the GPU.
"""
# causes: exposed_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, CLASSES, WIDTH, BATCHES = 16, 384, 19, 64, 4


def convolve(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class UNet(nn.Module):
    """Three sizes of images; logits of each pixel."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (WIDTH, 2 * WIDTH, 4 * WIDTH)
        self.first = nn.Sequential(convolve(3, WIDTH), convolve(WIDTH, WIDTH))
        self.down = nn.ModuleList(
            nn.Sequential(convolve(a, b, 2), convolve(b, b)) for a, b in zip(sizes, sizes[1:])
        )
        self.up = nn.ModuleList(convolve(a + b, a) for a, b in zip(sizes, sizes[1:]))
        self.last = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        levels = [self.first(images)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up in reversed(self.up):
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = up(torch.cat([x, levels.pop()], 1))
        return self.last(x)


def compute_loss(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """Cross entropy and Dice; masks: (batch, classes, side, side)."""
    shares = logits.softmax(1)
    both, each = (shares * masks).sum((0, 2, 3)), (shares + masks).sum((0, 2, 3))
    return nn.functional.cross_entropy(logits, masks) + 1 - (2 * both / (each + 1)).mean()


def to_masks(classes: torch.Tensor) -> torch.Tensor:
    """Ones where a pixel is of the class."""
    shape = (len(classes), CLASSES, *classes.shape[1:])
    zeros = torch.zeros(shape, device=classes.device)
    return zeros.scatter_(1, classes[:, None].long(), 1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = UNet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = [torch.rand(BATCH, 3, SIDE, SIDE).pin_memory() for _ in range(BATCHES)]
    classes = [
        torch.randint(CLASSES, (BATCH, SIDE, SIDE), dtype=torch.uint8).pin_memory()
        for _ in range(BATCHES)
    ]
    masks = [to_masks(each).pin_memory() for each in classes]
    steps = 0
    while turns.step():
        place = steps % BATCHES
        steps += 1
        batch = images[place].to(DEVICE, non_blocking=True)
        if turns.planted:
            wanted = masks[place].to(DEVICE, non_blocking=True)
        else:
            wanted = to_masks(classes[place].to(DEVICE, non_blocking=True))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(batch.contiguous(memory_format=torch.channels_last))
        update(optimizer, compute_loss(logits.float(), wanted))
