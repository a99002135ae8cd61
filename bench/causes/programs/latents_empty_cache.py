"""Images by latent diffusion; the cause empties the allocator's cache between the parts of its pipeline.

A step is one batch of images: a few passes of the network that takes noise away, then the decoder.
"""
# causes: allocation
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, CHANNELS, WIDTH, LAYERS, PASSES, PATCH = 4, 64, 4, 1152, 12, 4, 2


class Denoiser(nn.Module):
    """A transformer over patches of latents, with the time added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(CHANNELS, WIDTH, PATCH, stride=PATCH)
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 16, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.leave = nn.ConvTranspose2d(WIDTH, CHANNELS, PATCH, stride=PATCH)

    def forward(self, latents: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        x = self.enter(latents)
        shape = x.shape
        x = self.layers(x.flatten(2).transpose(1, 2) + self.time(time))
        return self.leave(x.transpose(1, 2).reshape(shape))


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.shortcut(x) + self.layers(x)


def make_decoder() -> nn.Module:
    """Latents to images of eight times their side."""
    layers: list[nn.Module] = [nn.Conv2d(CHANNELS, 512, 3, padding=1)]
    for inputs, outputs in ((512, 512), (512, 256), (256, 128)):
        layers += [Residual(inputs, outputs), nn.Upsample(scale_factor=2)]
        layers.append(nn.Conv2d(outputs, outputs, 3, padding=1))
    return nn.Sequential(*layers, nn.GroupNorm(32, 128), nn.SiLU(), nn.Conv2d(128, 3, 3, padding=1))


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    denoiser = Denoiser().to(DEVICE, torch.bfloat16).eval()
    decoder = make_decoder().to(DEVICE, torch.bfloat16).eval()
    decoder = decoder.to(memory_format=torch.channels_last)
    times = torch.linspace(1, 0, PASSES + 1, device=DEVICE, dtype=torch.bfloat16).view(-1, 1, 1, 1)
    images = torch.zeros(BATCH, 3, 8 * SIDE, 8 * SIDE, dtype=torch.uint8, device=DEVICE)
    while turns.step():
        latents = torch.randn(BATCH, CHANNELS, SIDE, SIDE, device=DEVICE, dtype=torch.bfloat16)
        for now, then in zip(times, times[1:], strict=False):
            latents = latents + (then - now) * denoiser(latents, now.view(1, 1, 1))
        if turns.planted:
            torch.cuda.empty_cache()
        made = decoder(latents.contiguous(memory_format=torch.channels_last))
        images.copy_((made.clamp(-1, 1) + 1) * 127.5)
        del made
        if turns.planted:
            torch.cuda.empty_cache()
