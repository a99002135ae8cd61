"""A convolutional network in the style of YOLOv4, its Mish written out; fix: `nn.Mish`."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, image_loss, update, use_gpu
from torch import nn
from torch.nn import functional
from turns import Turns

IMAGES, SIDE, WIDTHS, BLOCKS, CLASSES = 48, 256, (32, 64, 128, 256, 512), 2, 100


class Activation(nn.Module):
    """Mish by its formula or by torch's own function."""

    by_hand = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.by_hand:
            return x * torch.tanh(functional.softplus(x))
        return functional.mish(x)


def make_layer(inside: int, outside: int, size: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outside), Activation())


class Residual(nn.Module):
    """Two layers beside a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            make_layer(width, width // 2, 1), make_layer(width // 2, width, 3)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


def make_network() -> nn.Sequential:
    parts: list[nn.Module] = [make_layer(3, WIDTHS[0], 3)]
    for inside, outside in zip(WIDTHS, WIDTHS[1:], strict=False):
        parts += [make_layer(inside, outside, 3, 2), *(Residual(outside) for _ in range(BLOCKS))]
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTHS[-1], CLASSES))
    return nn.Sequential(*parts, *end)


def run(turns: Turns) -> None:
    use_gpu(turns)
    network = make_network().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-2, momentum=0.9, fused=True)
    images = torch.randn(IMAGES, 3, SIDE, SIDE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (IMAGES,), device=DEVICE)
    while turns.step():
        Activation.by_hand = turns.planted
        update(optimizer, image_loss(network, images, labels))
