"""A diffusion U-Net in training; the cause draws noise and mixes it into images on the CPU."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH = 48, 96, 48


class Residual(nn.Module):
    """Two convolutions that know the time."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.skip = nn.Linear(WIDTH, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class Unet(nn.Module):
    """Two levels and a middle with attention."""

    def __init__(self) -> None:
        super().__init__()
        self.time, self.first = nn.Embedding(1000, WIDTH), nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down1, self.down2 = Residual(WIDTH, WIDTH), Residual(WIDTH, 2 * WIDTH)
        self.middle = Residual(2 * WIDTH, 2 * WIDTH)
        self.attention = nn.MultiheadAttention(2 * WIDTH, 4, batch_first=True)
        self.up2, self.up1 = Residual(4 * WIDTH, WIDTH), Residual(2 * WIDTH, WIDTH)
        self.last = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        grow, shrink = nn.functional.interpolate, nn.functional.avg_pool2d
        clock = self.time(time)
        one = self.down1(self.first(x), clock)
        two = self.down2(shrink(one, 2), clock)
        x = self.middle(shrink(two, 2), clock)
        words = x.flatten(2).transpose(1, 2)
        x = x + self.attention(words, words, words)[0].transpose(1, 2).reshape(x.shape)
        x = self.up2(torch.cat([grow(x, scale_factor=2.0), two], 1), clock)
        x = self.up1(torch.cat([grow(x, scale_factor=2.0), one], 1), clock)
        return self.last(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Unet().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = {place: torch.rand(BATCH, 3, SIZE, SIZE, device=place) for place in ("cpu", DEVICE)}
    kept = {place: torch.linspace(0.99, 0.01, 1000, device=place) for place in ("cpu", DEVICE)}
    while turns.step():
        place = "cpu" if turns.planted else DEVICE
        time = torch.randint(1000, (BATCH,), device=place)
        share = kept[place][time][:, None, None, None]
        noise = torch.randn(images[place].shape, device=place)
        noisy = share.sqrt() * images[place] + (1 - share).sqrt() * noise
        noisy, time, noise = noisy.to(DEVICE), time.to(DEVICE), noise.to(DEVICE)
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(noisy, time), noise)
        update(optimizer, loss)
