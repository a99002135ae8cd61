"""A sampler of images in a latent space; the cause computes attention by einsum and softmax.

The fix calls scaled_dot_product_attention.
"""
# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

IMAGES, SIDE, CHANNELS, HEADS, LAYERS, WORDS, TEXT, TIMES = 2, 64, 640, 10, 6, 77, 768, 1000


class CrossAttention(nn.Module):
    """Attention to a context, or to itself."""

    def __init__(self, context: int) -> None:
        super().__init__()
        self.scale = (CHANNELS // HEADS) ** -0.5
        self.to_q = nn.Linear(CHANNELS, CHANNELS, bias=False)
        self.to_k = nn.Linear(context, CHANNELS, bias=False)
        self.to_v = nn.Linear(context, CHANNELS, bias=False)
        self.to_out = nn.Linear(CHANNELS, CHANNELS)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, context: torch.Tensor, planted: bool) -> torch.Tensor:
        q, k = self.split(self.to_q(x)), self.split(self.to_k(context))
        v = self.split(self.to_v(context))
        if planted:
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
            seen = torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)
        else:
            seen = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.to_out(seen.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A convolution, attention to the image and to the text, and a gated MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.time = nn.GroupNorm(32, CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(3))
        self.own, self.cross = CrossAttention(CHANNELS), CrossAttention(TEXT)
        self.wide = nn.Linear(CHANNELS, 8 * CHANNELS)
        self.narrow = nn.Linear(4 * CHANNELS, CHANNELS)

    def forward(
        self, image: torch.Tensor, time: torch.Tensor, text: torch.Tensor, planted: bool
    ) -> torch.Tensor:
        near = self.conv(nn.functional.silu(self.norm(image)))
        image = image + near + self.time(time)[..., None, None]
        x = image.flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.own(y, y, planted)
        x = x + self.cross(self.norms[1](x), text, planted)
        value, gate = self.wide(self.norms[2](x)).chunk(2, -1)
        x = x + self.narrow(value * nn.functional.gelu(gate))
        return x.transpose(1, 2).unflatten(2, (SIDE, SIDE))


class Denoiser(nn.Module):
    """Layers of one size, as in the middle of a U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Conv2d(4, CHANNELS, 3, padding=1)
        self.out = nn.Conv2d(CHANNELS, 4, 3, padding=1)
        self.times = nn.Embedding(TIMES, CHANNELS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(
        self, latents: torch.Tensor, time: torch.Tensor, text: torch.Tensor, planted: bool
    ) -> torch.Tensor:
        x = self.into(latents)
        for layer in self.layers:
            x = layer(x, self.times(time), text, planted)
        return self.out(x)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE, torch.float16)
    latents = torch.randn(2 * IMAGES, 4, SIDE, SIDE, device=DEVICE, dtype=torch.float16)
    text = torch.randn(2 * IMAGES, WORDS, TEXT, device=DEVICE, dtype=torch.float16)
    times = torch.arange(TIMES, device=DEVICE).flip(0)
    steps = 0
    while turns.step():
        noise = model(latents, times[steps % TIMES].expand(2 * IMAGES), text, turns.planted)
        without, guided = noise.chunk(2)
        latents = 0.99 * latents - 0.01 * (without + 7.5 * (guided - without)).repeat(2, 1, 1, 1)
        steps += 1
