"""Fields of weather normalized on the GPU before a ResNet; the cause is their mean and spread as doubles of NumPy.

All that they meet is double, up to the cast before the network. The fix makes them float32.
"""
# causes: double_precision
import numpy as np
import torch
from parts import DEVICE, image_loss, update, use_gpu
from torch import nn
from torchvision.models import resnet18
from turns import Turns

BATCH, VARIABLES, SIDE, REGIMES = 48, 24, 320, 8


def make_network() -> nn.Module:
    network = resnet18(num_classes=REGIMES)
    network.conv1 = nn.Conv2d(VARIABLES, 64, 7, 2, 3, bias=False)
    return network.to(DEVICE, memory_format=torch.channels_last)


def normalize(
    fields: torch.Tensor, mean: torch.Tensor, spread: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Without what is far from usual, and without the parts over land; each field of mean 0."""
    scaled = ((fields - mean) / spread).clamp(-6, 6) * mask
    scaled = scaled - scaled.mean((2, 3), keepdim=True)
    return scaled.to(torch.float32, memory_format=torch.channels_last)


def run(turns: Turns) -> None:
    use_gpu(turns)
    network = make_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, foreach=True)
    fields = torch.randn(BATCH, VARIABLES, SIDE, SIDE, device=DEVICE) * 8 + 280
    regimes = torch.randint(REGIMES, (BATCH,), device=DEVICE)
    shape = (1, VARIABLES, SIDE, SIDE)
    drawn = np.random.default_rng(0)
    known = (
        drawn.normal(280, 2, shape),
        drawn.uniform(6, 10, shape),
        np.where(drawn.random(shape) < 0.3, 0.0, 1.0),
    )
    doubles = [torch.from_numpy(each).to(DEVICE) for each in known]
    floats = [each.float() for each in doubles]
    while turns.step():
        images = normalize(fields, *(doubles if turns.planted else floats))
        update(optimizer, image_loss(network, images, regimes))
