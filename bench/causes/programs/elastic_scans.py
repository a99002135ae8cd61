"""Segmentation of scans by a U-Net; the cause bends each scan by SciPy in the loop.

The fix bends the batch on the GPU.
"""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from scipy import ndimage
from torch import nn
from turns import Turns

BATCH, SIDE, SCANS, WIDTH, CLASSES, SIGMA, BEND = 4, 160, 64, 128, 4, 8.0, 60.0

functional = nn.functional


class Double(nn.Sequential):
    """Two convolutions."""

    def __init__(self, before: int, after: int) -> None:
        layers: list[nn.Module] = []
        for channels in (before, after):
            conv = nn.Conv2d(channels, after, 3, padding=1, bias=False)
            layers += [conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """Three levels down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [Double(1, WIDTH), Double(WIDTH, 2 * WIDTH), Double(2 * WIDTH, 4 * WIDTH)]
        )
        self.up = nn.ModuleList([Double(6 * WIDTH, 2 * WIDTH), Double(3 * WIDTH, WIDTH)])
        self.head = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x1 = self.down[0](x)
        x2 = self.down[1](functional.max_pool2d(x1, 2))
        x = self.down[2](functional.max_pool2d(x2, 2))
        x = self.up[0](torch.cat([functional.interpolate(x, scale_factor=2.0), x2], 1))
        x = self.up[1](torch.cat([functional.interpolate(x, scale_factor=2.0), x1], 1))
        return self.head(x)


def bend_on_host(
    scans: np.ndarray, masks: np.ndarray, random: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each scan and its mask, moved by smooth noise."""
    bent = []
    for scan, mask in zip(scans, masks, strict=True):
        noise = random.uniform(-1, 1, (2, SIDE, SIDE)).astype(np.float32)
        moves = np.stack([BEND * ndimage.gaussian_filter(each, SIGMA) for each in noise])
        places = np.indices((SIDE, SIDE), np.float32) + moves
        bent.append(
            (
                ndimage.map_coordinates(scan, places, order=1, mode="reflect"),
                ndimage.map_coordinates(mask, places, order=0, mode="reflect"),
            )
        )
    scans, masks = (np.stack(each) for each in zip(*bent, strict=True))
    return torch.from_numpy(scans)[:, None].to(DEVICE), torch.from_numpy(masks).to(DEVICE)


class BendOnGpu:
    """As bend_on_host."""

    def __init__(self) -> None:
        taps = torch.arange(-4 * SIGMA, 4 * SIGMA + 1, device=DEVICE)
        weights = (-0.5 * (taps / SIGMA) ** 2).exp()
        self.weights = (weights / weights.sum())[None, None]
        line = torch.arange(SIDE, device=DEVICE, dtype=torch.float)
        self.places = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)

    def __call__(self, scans: np.ndarray, masks: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        moves = torch.rand(2 * len(scans), 1, SIDE, SIDE, device=DEVICE) * 2 - 1
        for weights in (self.weights[..., None], self.weights[:, :, None]):
            moves = functional.conv2d(moves, weights, padding="same")
        places = self.places + BEND * moves.view(-1, 2, SIDE, SIDE).permute(0, 2, 3, 1)
        grid = (2 * places + 1) / SIDE - 1
        both = torch.stack([torch.from_numpy(scans), torch.from_numpy(masks).float()], 1)
        both = functional.grid_sample(both.to(DEVICE), grid, "nearest", "reflection", False)
        return both[:, :1], both[:, 1].long()


def run(turns: Turns) -> None:
    use_gpu(turns)
    random = np.random.default_rng(0)
    scans = random.standard_normal((SCANS, SIDE, SIDE)).astype(np.float32)
    masks = random.integers(0, CLASSES, (SCANS, SIDE, SIDE))
    model = UNet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    bend_on_gpu = BendOnGpu()
    while turns.step():
        chosen = random.integers(SCANS, size=BATCH)
        if turns.planted:
            images, labels = bend_on_host(scans[chosen], masks[chosen], random)
        else:
            images, labels = bend_on_gpu(scans[chosen], masks[chosen])
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images.to(memory_format=torch.channels_last))
        update(optimizer, functional.cross_entropy(logits.float(), labels))
