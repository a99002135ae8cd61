"""Latent diffusion in training; the cause is an encoder of images in fp32, without TF32, lest its numbers overflow.

All else is bf16. The fix is an encoder in bf16, as there are published weights for.
"""
# causes: no_tensor_cores
import copy

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, CHANNELS, HIDDEN = 16, 256, (64, 128, 256, 256), 4
PATCH, WIDTH, HEADS, LAYERS, TIMES = 2, 1024, 16, 8, 1000


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1),
        )  # fmt: skip
        self.beside = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.beside(x) + self.inner(x)


def make_encoder() -> nn.Sequential:
    """Images to latent maps an eighth as high and wide, as in Stable Diffusion."""
    layers: list[nn.Module] = [nn.Conv2d(3, CHANNELS[0], 3, padding=1)]
    before = CHANNELS[0]
    for level, width in enumerate(CHANNELS):
        if level:
            layers.append(nn.Conv2d(before, before, 3, 2, 1))
        layers += [Residual(before, width), Residual(width, width)]
        before = width
    layers += [nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, HIDDEN, 3, padding=1)]
    return nn.Sequential(*layers)


class Layer(nn.Module):
    """Attention and an MLP, led by the time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.lead = nn.Linear(WIDTH, 2 * WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        first, second = self.lead(time)[:, None].chunk(2, -1)
        heads = self.qkv(self.norm1(x) + first).unflatten(-1, (3, HEADS, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x) + second)


class Denoiser(nn.Module):
    """Noisy latent maps to their noise."""

    def __init__(self) -> None:
        super().__init__()
        self.times = nn.Embedding(TIMES, WIDTH)
        self.first = nn.Conv2d(HIDDEN, WIDTH, PATCH, PATCH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.ConvTranspose2d(WIDTH, HIDDEN, PATCH, PATCH)

    def forward(self, maps: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        x = self.first(maps)
        side, time = x.shape[-1], self.times(times)
        x = x.flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, time)
        return self.last(x.transpose(1, 2).unflatten(2, (side, side)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cudnn.allow_tf32 = False
    upcast = make_encoder().to(DEVICE).eval()
    encoders = {True: upcast, False: copy.deepcopy(upcast).bfloat16()}
    model = Denoiser().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    while turns.step():
        with torch.no_grad():
            encode = encoders[turns.planted]
            maps = encode(images.to(encode[0].weight.dtype)).float()
        noise, times = torch.randn_like(maps), torch.randint(TIMES, (BATCH,), device=DEVICE)
        kept = (1 - times / TIMES).view(-1, 1, 1, 1)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = model(kept.sqrt() * maps + (1 - kept).sqrt() * noise, times)
        update(optimizer, nn.functional.mse_loss(guesses.float(), noise))
