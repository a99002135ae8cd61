"""Landmarks of faces by heat maps (a ResNet of timm); the cause is the adaptive wing loss, operation by operation.

Each of its powers and logarithms reads and writes a number for each pixel of 98 maps of each face. The
fix gives that one function to `torch.compile`.
"""
# causes: unfused_elementwise
import timm
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, LANDMARKS, WIDTH, STORED = 20, 512, 98, 256, 2
SIDE = SIZE // 4
OMEGA, THETA, EPSILON, ALPHA = 14.0, 0.5, 1.0, 2.1


def adaptive_wing(found: torch.Tensor, true: torch.Tensor) -> torch.Tensor:
    """The loss of Wang et al. (2019), with ten times the weight near landmarks."""
    found = found.float()
    power = ALPHA - true
    ratio = (THETA / EPSILON) ** power
    slope = OMEGA / (1 + ratio) * power * (THETA / EPSILON) ** (power - 1) / EPSILON
    offset = THETA * slope - OMEGA * torch.log1p(ratio)
    delta = (true - found).abs()
    near = OMEGA * torch.log1p((delta / EPSILON) ** power)
    loss = torch.where(delta < THETA, near, slope * delta - offset)
    return (loss * (1 + 10 * (true > 0.2))).mean()


def draw_maps() -> torch.Tensor:
    """A Gaussian around each landmark."""
    centres = SIDE * torch.rand(BATCH, LANDMARKS, 2, 1, device=DEVICE)
    places = torch.arange(SIDE, device=DEVICE)
    row, column = torch.exp(-((places - centres) ** 2) / 8).unbind(2)
    return row[..., :, None] * column[..., None, :]


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Landmarks(nn.Module):
    """Maps of a pyramid of features, and maps made better by those."""

    def __init__(self) -> None:
        super().__init__()
        self.body = timm.create_model("resnet18", pretrained=False, features_only=True)
        channels = self.body.feature_info.channels()[1:]
        self.sides = nn.ModuleList(nn.Conv2d(count, WIDTH, 1) for count in channels)
        self.smooth = convolve(WIDTH, WIDTH)
        self.first, self.second = nn.Conv2d(WIDTH, LANDMARKS, 1), nn.Conv2d(WIDTH, LANDMARKS, 1)
        self.back, self.refine = nn.Conv2d(LANDMARKS, WIDTH, 1), convolve(WIDTH, WIDTH)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.body(images)[1:]
        x = self.sides[-1](features[-1])
        for side, feature in zip(self.sides[-2::-1], features[-2::-1], strict=True):
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest") + side(feature)
        x = self.smooth(x)
        first = self.first(x)
        return first, self.second(self.refine(x + self.back(first)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Landmarks().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(adaptive_wing)
    images = torch.randn(STORED, BATCH, 3, SIZE, SIZE, device=DEVICE)
    maps = [draw_maps().contiguous(memory_format=torch.channels_last) for _ in range(STORED)]
    steps = 0
    while turns.step():
        place, steps = steps % STORED, steps + 1
        measure = adaptive_wing if turns.planted else compiled
        with torch.autocast("cuda", dtype=torch.bfloat16):
            first, second = model(images[place].contiguous(memory_format=torch.channels_last))
        update(optimizer, measure(first, maps[place]) + measure(second, maps[place]))
