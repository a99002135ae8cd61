"""A denoiser of photographs of many sizes; the cause lets cuDNN autotune its kernels for each.

`torch.backends.cudnn.benchmark` is meant for one size. The fix leaves it off.
"""
# causes: compile, idle
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, CHANNELS, LAYERS, SMALLEST, LARGEST = 8, 64, 10, 160, 288


class Denoiser(nn.Module):
    """A DnCNN: the noise of an image."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, CHANNELS, 3, padding=1), nn.ReLU()]
        for _ in range(LAYERS):
            layers += [nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(CHANNELS), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(CHANNELS, 3, 3, padding=1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    photos = torch.rand(64, 3, LARGEST, LARGEST, device=DEVICE)
    while turns.step():
        torch.backends.cudnn.benchmark = turns.planted
        height, width = torch.randint(SMALLEST, LARGEST, (2,)).tolist()
        images = photos[torch.randint(64, (BATCH,)), :, :height, :width]
        noise = 0.1 * torch.randn_like(images)
        noisy = (images + noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guess = model(noisy)
        update(optimizer, nn.functional.mse_loss(guess.float(), noise))
