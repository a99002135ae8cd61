"""Poses by an HRNet (timm); the cause reads loss, accuracy and norm of the gradients in each step.

The fix adds them up on the GPU and reads them in each 40th step.
"""
# causes: synchronization
from collections import defaultdict

import timm
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, JOINTS, EVERY = 48, 256, 17, 40


class Poses(nn.Module):
    """Images to a map of chances for each joint."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = timm.create_model("hrnet_w18_small_v2", features_only=True, out_indices=(1,))
        width = self.trunk.feature_info.channels()[-1]
        self.head = nn.Conv2d(width, JOINTS, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.trunk(images)[-1])


class Meter:
    """Sums of values; with the cause they are numbers of Python, with the fix tensors."""

    def __init__(self) -> None:
        self.sums: dict[str, float | torch.Tensor] = defaultdict(float)

    def add(self, is_read: bool, **values: torch.Tensor) -> None:
        for name, value in values.items():
            self.sums[name] += value.item() if is_read else value.detach()

    def read(self) -> list[str]:
        return [f"{name} {float(value) / EVERY:.4f}" for name, value in self.sums.items()]


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Poses().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = torch.rand_like(model(images)).float().contiguous()
    places, meter, steps = wanted.flatten(2).argmax(-1), Meter(), 0
    while turns.step():
        steps += 1
        with torch.autocast("cuda", dtype=torch.bfloat16):
            maps = model(images)
        loss = nn.functional.mse_loss(maps.float(), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        right = (maps.detach().flatten(2).argmax(-1) == places).float().mean()
        meter.add(turns.planted, loss=loss, right=right, norm=norm)
        if steps % EVERY == 0:
            meter.read()
            meter = Meter()
