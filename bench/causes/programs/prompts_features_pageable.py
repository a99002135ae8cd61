"""Images from prompts: a diffusion transformer trained on stored latents and stored features of texts.

A text encoder has made 300 vectors of 4,096 numbers of each prompt before (as for PixArt). The cause
copies them from the memory that NumPy has read them into. The fix has that memory pinned.
"""
# causes: pageable_copy
import numpy as np
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, WORDS, TEXT_WIDTH, CHANNELS, SIDE, SHARDS = 32, 300, 4096, 16, 32, 2
PATCH, WIDTH, HEADS, LAYERS = 2, 1024, 16, 8
TOKENS, PIXELS = (SIDE // PATCH) ** 2, CHANNELS * PATCH * PATCH


def read_shards() -> list[tuple[np.ndarray, np.ndarray]]:
    """The latents and the features of one batch each."""
    random = np.random.default_rng(0)
    shards = []
    for _ in range(SHARDS):
        latents = random.standard_normal((BATCH, TOKENS, PIXELS), np.float32).astype(np.float16)
        features = random.standard_normal((BATCH, WORDS, TEXT_WIDTH), np.float32)
        shards.append((latents, features.astype(np.float16)))
    return shards


class Attention(nn.Module):
    """Attention of image tokens to themselves or to words."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.both = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        q = self.query(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.both(context).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Attention to the image, then to the words, then an MLP; the time scales the first and the last."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.itself, self.words = Attention(), Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.table = nn.Parameter(torch.randn(6, WIDTH) / WIDTH**0.5)

    def forward(self, x: torch.Tensor, words: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        parts = (self.table + time).to(x.dtype).chunk(6, 1)
        shift1, scale1, gate1, shift2, scale2, gate2 = parts
        y = torch.addcmul(shift1, self.norm1(x), 1 + scale1)
        x = x + gate1 * self.itself(y, y)
        x = x + self.words(x, words)
        y = torch.addcmul(shift2, self.norm2(x), 1 + scale2)
        return x + gate2 * self.mlp(y)


class Painter(nn.Module):
    """Noisy latents, words and a time to the way from image to noise."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(PIXELS, WIDTH), nn.Linear(WIDTH, PIXELS)
        self.places = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        self.words = nn.Sequential(
            nn.Linear(TEXT_WIDTH, WIDTH), nn.GELU(approximate="tanh"), nn.Linear(WIDTH, WIDTH)
        )
        self.time = nn.Sequential(nn.Linear(256, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.register_buffer("waves", torch.exp(-torch.arange(128) * (9.21 / 128)))

    def forward(self, x: torch.Tensor, words: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        angles = 1000 * time[:, None] * self.waves
        scales = self.time(torch.cat([angles.cos(), angles.sin()], 1)).unflatten(1, (6, WIDTH))
        words, x = self.words(words), self.first(x) + self.places
        for layer in self.layers:
            x = layer(x, words, scales)
        return self.last(x)


def find_loss(model: nn.Module, latents: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """The error of a rectified flow."""
    latents = latents.float()
    noise, time = torch.randn_like(latents), torch.rand(len(latents), device=DEVICE)
    mixed = torch.lerp(latents, noise, time[:, None, None])
    with torch.autocast("cuda", dtype=torch.bfloat16):
        way = model(mixed, features, time)
    return F.mse_loss(way.float(), noise - latents)


def run(turns: Turns) -> None:
    use_gpu(turns)
    with torch.device(DEVICE):
        model = Painter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    plain = [tuple(torch.from_numpy(array) for array in shard) for shard in read_shards()]
    pinned = [tuple(tensor.pin_memory() for tensor in shard) for shard in plain]
    steps = 0
    while turns.step():
        shard = (plain if turns.planted else pinned)[steps % SHARDS]
        steps += 1
        latents, features = (each.to(DEVICE, non_blocking=not turns.planted) for each in shard)
        loss = find_loss(model, latents, features)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
