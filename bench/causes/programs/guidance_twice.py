"""Images for one user by a diffusion transformer; the cause calls it twice, with the words and without.

The fix calls it once for a batch of both.
"""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

LAYERS, WIDTH, HEADS, SIDE, CHANNELS, WORDS, STEPS, SCALE = 18, 1152, 16, 16, 16, 77, 2, 5.0


class Layer(nn.Module):
    """Attention within the image and to the words, and a mixing of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.shifts = nn.Linear(WIDTH, 4 * WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query, self.words = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.mixed = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        shift1, scale1, shift2, scale2 = self.shifts(time)[:, None].chunk(4, -1)
        q, k, v = self.qkv(self.norm1(x) * (1 + scale1) + shift1).chunk(3, -1)
        x = x + self.out(attend(q, k, v))
        x = x + self.mixed(attend(self.query(x), *self.words(words).chunk(2, -1)))
        return x + self.mlp(self.norm2(x) * (1 + scale2) + shift2)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in (q, k, v))
    return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Denoiser(nn.Module):
    """The noise in patches of a latent image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(CHANNELS, WIDTH), nn.Linear(WIDTH, CHANNELS)
        self.places = nn.Parameter(0.02 * torch.randn(SIDE * SIDE, WIDTH))
        self.time = nn.Sequential(nn.Linear(256, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor, time: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        x, time = self.first(x) + self.places, self.time(time)
        for layer in self.layers:
            x = layer(x, time, words)
        return self.last(x)


def guide(
    model: Denoiser, x: torch.Tensor, time: torch.Tensor, words: torch.Tensor, *, calls_twice: bool
) -> torch.Tensor:
    """The noise that leads away from the image without words; words are (with, without)."""
    if calls_twice:
        wanted, plain = model(x, time, words[:1]), model(x, time, words[1:])
    else:
        wanted, plain = model(x.expand(2, -1, -1), time.expand(2, -1), words).chunk(2)
    return plain + SCALE * (wanted - plain)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE).bfloat16().eval()
    latent = torch.randn(1, SIDE * SIDE, CHANNELS, device=DEVICE, dtype=torch.bfloat16)
    words = torch.randn(2, WORDS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    times = torch.randn(STEPS, 1, 256, device=DEVICE, dtype=torch.bfloat16)
    while turns.step():
        x = latent
        for time in times:
            x = x - 0.1 * guide(model, x, time, words, calls_twice=turns.planted)
        x.cpu()
