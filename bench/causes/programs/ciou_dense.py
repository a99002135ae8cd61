"""Boxes of a detector at each anchor; the cause computes their CIoU op by op, the fix compiles it."""
# causes: unfused_elementwise
import math

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, ANCHORS = 32, 256, 64, 9


def find_ciou_loss(found: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """One less the overlap, the distance of the centers, and how unlike the shapes are."""
    x, y, width, height = found.unbind(2)
    x, y = x.sigmoid(), y.sigmoid()
    width, height = width.clamp(-4, 4).exp(), height.clamp(-4, 4).exp()
    true_x, true_y, true_width, true_height = true.unbind(2)
    left, right = x - width / 2, x + width / 2
    top, bottom = y - height / 2, y + height / 2
    true_left, true_right = true_x - true_width / 2, true_x + true_width / 2
    true_top, true_bottom = true_y - true_height / 2, true_y + true_height / 2
    across = (torch.minimum(right, true_right) - torch.maximum(left, true_left)).clamp_min(0)
    down = (torch.minimum(bottom, true_bottom) - torch.maximum(top, true_top)).clamp_min(0)
    shared = across * down
    overlap = shared / (width * height + true_width * true_height - shared + 1e-7)
    around_x = torch.maximum(right, true_right) - torch.minimum(left, true_left)
    around_y = torch.maximum(bottom, true_bottom) - torch.minimum(top, true_top)
    apart = (x - true_x).square() + (y - true_y).square()
    far = apart / (around_x.square() + around_y.square() + 1e-7)
    turn = torch.atan(true_width / true_height) - torch.atan(width / height)
    unlike = (4 / math.pi**2) * turn.square()
    weight = (unlike / (1 - overlap + unlike + 1e-7)).detach()
    return (1 - overlap + far + weight * unlike).mean()


def make_network() -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 3
    for _ in range(5):
        layers += [nn.Conv2d(inputs, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU()]
        inputs = WIDTH
    return nn.Sequential(*layers, nn.Conv2d(WIDTH, 4 * ANCHORS, 1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_network().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.contiguous(memory_format=torch.channels_last)
    # (batch, anchors, 4, height, width)
    true = torch.rand(BATCH, ANCHORS, 4, SIZE, SIZE, device=DEVICE) + 0.1
    compiled = torch.compile(find_ciou_loss)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(images)
        found = scores.float().unflatten(1, (ANCHORS, 4))
        update(optimizer, (find_ciou_loss if turns.planted else compiled)(found, true))
