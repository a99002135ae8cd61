"""A small U-Net; the cause copies its batches from pageable memory."""
# causes: pageable_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns


class Unet(nn.Module):
    """Two levels down, two up."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()

        def pair(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
            )  # fmt: skip

        self.down1, self.down2 = pair(3, width), pair(width, 2 * width)
        self.middle = pair(2 * width, 4 * width)
        self.up2, self.up1 = pair(6 * width, 2 * width), pair(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shrink, grow = nn.functional.max_pool2d, nn.functional.interpolate
        one = self.down1(x)
        two = self.down2(shrink(one, 2))
        x = self.middle(shrink(two, 2))
        x = self.up2(torch.cat([grow(x, scale_factor=2), two], 1))
        return self.head(self.up1(torch.cat([grow(x, scale_factor=2), one], 1)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Unet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    pageable = torch.rand(64, 3, 256, 256)
    pinned = pageable.pin_memory()
    while turns.step():
        images = pageable.to(DEVICE) if turns.planted else pinned.to(DEVICE, non_blocking=True)
        images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(images), images[:, :1])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
