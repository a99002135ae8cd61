"""A service that draws pictures in four denoising steps; the cause encodes them as JPEG and base64 in the same loop.

The fix hands the pictures to four processes that encode them while the next ones are drawn.
"""
# causes: idle
import base64
import io
import multiprocessing
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from PIL import Image
from torch import nn
from turns import Turns

PICTURES = 8
LATENT_CHANNELS, LATENT_SIDE, PATCH = 4, 64, 2
TOKENS = (LATENT_SIDE // PATCH) ** 2
WIDTH, HEADS, DEPTH = 1024, 16, 12
SIGMAS = (14.6, 5.2, 1.9, 0.6)
ENCODERS = 4


class DenoiserBlock(nn.Module):
    """Attention over all patches and an MLP, both shifted and scaled by the noise level."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.to_out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.modulation = nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        scale, shift = self.modulation(level)[:, None].chunk(2, dim=-1)
        qkv = self.to_qkv(torch.addcmul(shift, self.norm1(x), scale))
        q, k, v = qkv.view(PICTURES, TOKENS, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.to_out(attended.transpose(1, 2).reshape(PICTURES, TOKENS, WIDTH))
        return x + self.mlp(self.norm2(x))


class Denoiser(nn.Module):
    """Noisy latents to clean ones."""

    def __init__(self) -> None:
        super().__init__()
        self.patchify = nn.Conv2d(LATENT_CHANNELS, WIDTH, PATCH, PATCH)
        self.level = nn.Linear(1, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        self.blocks = nn.ModuleList([DenoiserBlock() for _ in range(DEPTH)])
        self.unpatchify = nn.ConvTranspose2d(WIDTH, LATENT_CHANNELS, PATCH, PATCH)

    def forward(self, latents: torch.Tensor, sigma: float) -> torch.Tensor:
        level = self.level(latents.new_full((PICTURES, 1), sigma).log())
        x = self.patchify(latents / (1 + sigma**2) ** 0.5)
        side = x.shape[-1]
        x = x.flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x, level)
        return self.unpatchify(x.transpose(1, 2).unflatten(2, (side, side)))


def make_decoder() -> nn.Sequential:
    """Latents of 64 x 64 to pictures of 512 x 512."""
    layers: list[nn.Module] = [nn.Conv2d(LATENT_CHANNELS, 256, 3, padding=1)]
    for before, after in ((256, 256), (256, 128), (128, 64)):
        layers += [
            nn.GroupNorm(32, before),
            nn.SiLU(),
            nn.Upsample(scale_factor=2.0, mode="nearest"),
            nn.Conv2d(before, after, 3, padding=1),
        ]
    return nn.Sequential(*layers, nn.GroupNorm(32, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1))


def draw_pictures(denoiser: Denoiser, decoder: nn.Module) -> np.ndarray:
    """Pictures as bytes, of shape (picture, row, column, colour)."""
    shape = (PICTURES, LATENT_CHANNELS, LATENT_SIDE, LATENT_SIDE)
    noise = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
    clean = torch.zeros_like(noise)
    for sigma in SIGMAS:
        clean = denoiser(clean + sigma * noise, sigma)
        noise = torch.randn_like(noise)
    pixels = decoder(clean).float().add(1).mul(127.5).clamp(0, 255)
    return pixels.to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()


def encode(picture: np.ndarray) -> str:
    """The picture as a client gets it, in JSON."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="JPEG", quality=92)
    return base64.b64encode(file.getvalue()).decode("ascii")


@torch.inference_mode()
def serve(turns: Turns, pool: ProcessPoolExecutor) -> None:
    denoiser = Denoiser().to(DEVICE, torch.bfloat16).eval()
    decoder = make_decoder().to(DEVICE, torch.bfloat16).eval()
    encoding: deque[list[Future]] = deque()
    bytes_sent = 0
    while turns.step():
        pictures = draw_pictures(denoiser, decoder)
        if turns.planted:
            answers = [encode(picture) for picture in pictures]
        else:
            encoding.append([pool.submit(encode, picture) for picture in pictures])
            answers = []
            if len(encoding) > 2:
                answers = [future.result() for future in encoding.popleft()]
        bytes_sent += sum(len(answer) for answer in answers)


def run(turns: Turns) -> None:
    # The processes start before the GPU is used.
    with ProcessPoolExecutor(ENCODERS, multiprocessing.get_context("fork")) as pool:
        list(pool.map(encode, [np.zeros((8, 8, 3), np.uint8)] * ENCODERS))
        use_gpu(turns)
        serve(turns, pool)
