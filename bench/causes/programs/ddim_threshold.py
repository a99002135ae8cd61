"""A diffusion sampler of pixels; the cause is a scheduler that keeps its samples on the CPU."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, STEPS = 32, 128, 64, 50


class Unit(nn.Module):
    """Two convolutions beside a shortcut, told the time."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time, self.short = nn.Linear(WIDTH, outputs), nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(nn.functional.silu(self.norm1(x))) + self.time(time)[..., None, None]
        return self.short(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class Denoiser(nn.Module):
    """A U-Net of three levels."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Embedding(STEPS, WIDTH)
        self.first, self.last = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        widths = (WIDTH, 2 * WIDTH, 4 * WIDTH)
        self.down = nn.ModuleList(Unit(max(WIDTH, w // 2), w) for w in widths)
        self.up = nn.ModuleList(Unit(2 * w, max(WIDTH, w // 2)) for w in reversed(widths))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        time, x, kept = self.times(time), self.first(x), []
        for unit in self.down:
            kept.append(unit(x, time))
            x = nn.functional.avg_pool2d(kept[-1], 2)
        for unit, other in zip(self.up, reversed(kept), strict=True):
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = unit(torch.cat([x, other], 1), time)
        return self.last(x)


class Scheduler:
    """DDIM with dynamic thresholds: no pixel is beyond what 99.5 % of its image keep to."""

    def __init__(self) -> None:
        noise = torch.linspace(1e-3, 0.2, STEPS, dtype=torch.float64)
        self.kept = [1.0, *torch.cumprod(1 - noise, 0).tolist()]

    def step(self, noise: torch.Tensor, time: int, sample: torch.Tensor) -> torch.Tensor:
        now, then = self.kept[time + 1], self.kept[time]
        image = (sample - (1 - now) ** 0.5 * noise) / now**0.5
        limit = torch.quantile(image.abs().flatten(1), 0.995, dim=1).clamp(min=1)
        limit = limit[:, None, None, None]
        image = torch.minimum(torch.maximum(image, -limit), limit) / limit
        return then**0.5 * image + (1 - then) ** 0.5 * noise


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE, memory_format=torch.channels_last).eval()
    scheduler = Scheduler()
    times = torch.arange(STEPS, device=DEVICE).unsqueeze(1)
    start = torch.randn(BATCH, 3, SIZE, SIZE)
    sample, time = start, 0
    while turns.step():
        home = "cpu" if turns.planted else DEVICE
        if time == 0:
            sample, time = start, STEPS
        time -= 1
        sample = sample.to(home)
        x = sample.to(DEVICE).contiguous(memory_format=torch.channels_last)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            noise = model(x, times[time])
        sample = scheduler.step(noise.float().to(home), time, sample)
