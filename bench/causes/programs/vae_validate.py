"""A hierarchical VAE of images by torch.distributions; the cause is that each distribution checks its parameters.

It does so by default, and each check reads a number from the GPU. The fix turns the checks off.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.distributions import Distribution, Normal
from turns import Turns

BATCH, SIZE, WIDTH, HIDDEN, GROUPS = 32, 64, 160, 16, 16


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.SiLU(), nn.Conv2d(inputs, WIDTH, 3, padding=1),
        nn.SiLU(), nn.Conv2d(WIDTH, outputs, 3, padding=1),
    )  # fmt: skip


def make_normal(parameters: torch.Tensor) -> Normal:
    mean, log_scale = parameters.float().chunk(2, 1)
    return Normal(mean, log_scale.clamp(-5, 2).exp())


class Group(nn.Module):
    """One group of hidden variables: what is expected of them, and what the image says."""

    def __init__(self) -> None:
        super().__init__()
        self.prior, self.posterior = convolve(WIDTH, 2 * HIDDEN), convolve(2 * WIDTH, 2 * HIDDEN)
        self.merge, self.rest = nn.Conv2d(HIDDEN, WIDTH, 1), convolve(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        prior = make_normal(self.prior(x))
        posterior = make_normal(self.posterior(torch.cat([x, seen], 1)))
        drawn = posterior.rsample()
        divergence = (posterior.log_prob(drawn) - prior.log_prob(drawn)).mean()
        x = x + self.merge(drawn)
        return x + self.rest(x), divergence


class Vae(nn.Module):
    """Images to the bound of their likelihood."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, WIDTH, 4, 2, 1)
        self.encoder = nn.ModuleList(convolve(WIDTH, WIDTH) for _ in range(4))
        self.start = nn.Parameter(0.1 * torch.randn(1, WIDTH, SIZE // 2, SIZE // 2))
        self.groups = nn.ModuleList(Group() for _ in range(GROUPS))
        self.last = nn.ConvTranspose2d(WIDTH, 6, 4, 2, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.first(images)
        for layer in self.encoder:
            seen = seen + layer(seen)
        x, bound = self.start.expand_as(seen), images.new_zeros(())
        for group in self.groups:
            x, divergence = group(x, seen)
            bound = bound + divergence
        return bound - make_normal(self.last(x)).log_prob(images).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Vae().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    while turns.step():
        Distribution.set_default_validate_args(turns.planted)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(images)
        update(optimizer, loss)
