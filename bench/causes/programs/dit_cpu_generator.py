"""Images sampled from a diffusion transformer (DDPM); the cause draws the noise of each step on the CPU.

`torch.randn(..., generator=torch.Generator("cpu")).to("cuda")` gives the same images on each GPU, and is how
pipelines are told to draw. The fix has a generator of the GPU, and its time steps there, too.
"""
# causes: idle, pageable_copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from turns import Turns


class TimestepEmbedder(nn.Module):
    """Sines and cosines of a time step, then an MLP."""

    def __init__(self, dim, freq_dim=256):
        super().__init__()
        self.freq_dim = freq_dim
        freqs = torch.exp(-math.log(10000) * torch.arange(freq_dim // 2) / (freq_dim // 2))
        self.register_buffer("freqs", freqs)
        self.mlp = nn.Sequential(nn.Linear(freq_dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        args = t[:, None].float() * self.freqs
        return self.mlp(torch.cat([args.cos(), args.sin()], dim=-1).to(self.mlp[0].weight.dtype))


class DiTBlock(nn.Module):
    """Attention and an MLP, scaled and shifted by the time step."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU("tanh"), nn.Linear(4 * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(c)[:, None].chunk(6, dim=-1)
        h = self.norm1(x) * (1 + s1) + b1
        B, N, D = h.shape
        q, k, v = self.qkv(h).view(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + g1 * self.proj(h)
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


class DiT(nn.Module):
    """Noisy images and their time steps to the noise in them."""

    def __init__(self, size=128, patch=8, dim=768, depth=16, num_heads=12):
        super().__init__()
        self.patch, self.grid = patch, size // patch
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.pos = nn.Parameter(0.02 * torch.randn(1, self.grid**2, dim))
        self.time = TimestepEmbedder(dim)
        self.blocks = nn.ModuleList([DiTBlock(dim, num_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 3 * patch * patch)

    def forward(self, x, t):
        h = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        c = self.time(t)
        for block in self.blocks:
            h = block(h, c)
        g, p = self.grid, self.patch
        h = self.out(self.norm(h)).view(-1, g, g, 3, p, p)
        return h.permute(0, 3, 1, 4, 2, 5).reshape(x.shape)


class DDPMScheduler:
    """Takes the noise that a model found off an image, and adds a little of a new one."""

    def __init__(self, num_steps):
        betas = torch.linspace(1e-4, 0.02, num_steps, dtype=torch.float64)
        alphas_cumprod = torch.cumprod(1 - betas, 0)
        self.mean_coef = (betas / (1 - alphas_cumprod).sqrt()).tolist()
        self.scale = (1 / (1 - betas).sqrt()).tolist()
        self.sigma = betas.sqrt().tolist()

    def step(self, eps, t, x, noise):
        mean = self.scale[t] * (x - self.mean_coef[t] * eps)
        return mean + self.sigma[t] * noise


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    num_images, size, num_steps = 48, 128, 250
    model = DiT(size).to("cuda", torch.bfloat16).eval()
    scheduler = DDPMScheduler(num_steps)
    cpu_generator = torch.Generator("cpu").manual_seed(0)
    gpu_generator = torch.Generator("cuda").manual_seed(0)
    shape = (num_images, 3, size, size)
    images = torch.randn(shape, device="cuda")

    t = num_steps
    while turns.step():
        t = t - 1 if t > 0 else num_steps - 1
        if turns.planted:
            timesteps = torch.full((num_images,), t).to("cuda")
            noise = torch.randn(shape, generator=cpu_generator).to("cuda")
        else:
            timesteps = torch.full((num_images,), t, device="cuda")
            noise = torch.randn(shape, generator=gpu_generator, device="cuda")
        eps = model(images.to(torch.bfloat16), timesteps).float()
        images = scheduler.step(eps, t, images, noise).clamp(-4, 4)
