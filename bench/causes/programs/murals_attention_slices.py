"""Murals painted by latent diffusion; the cause is attention in slices, as `enable_attention_slicing` has it.

It saves memory that an old GPU lacked: the scores of four heads at a time are written, and read
again. The fix is `scaled_dot_product_attention`, which writes none.
"""
# causes: unfused_attention
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

IMAGES, SIDE, CHANNELS, WIDTH, HEADS, LAYERS, SLICE, PASSES = 8, 64, 4, 1024, 8, 6, 4, 50


def attend_in_slices(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The attention of heads (image and head, place, width), some of them at a time."""
    result, scale = torch.empty_like(q), q.shape[-1] ** -0.5
    for first in range(0, len(q), SLICE):
        part = slice(first, first + SLICE)
        unused = q.new_empty(SLICE, q.shape[1], k.shape[1])
        scores = torch.baddbmm(unused, q[part], k[part].transpose(1, 2), beta=0, alpha=scale)
        result[part] = torch.bmm(scores.softmax(-1), v[part])
    return result


class Layer(nn.Module):
    """Attention between the places of an image, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, is_sliced: bool) -> torch.Tensor:
        images, places, _ = x.shape
        shape = (images, places, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4).contiguous()
        if is_sliced:
            y = attend_in_slices(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)).view(q.shape)
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class Denoiser(nn.Module):
    """The noise in latents, told the time by a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(CHANNELS, WIDTH), nn.Linear(WIDTH, CHANNELS)
        self.times = nn.Embedding(PASSES, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, latents: torch.Tensor, time: torch.Tensor, is_sliced: bool) -> torch.Tensor:
        x = self.enter(latents.flatten(2).transpose(1, 2)) + self.times(time)
        for layer in self.layers:
            x = layer(x, is_sliced)
        return self.leave(x).transpose(1, 2).view(latents.shape)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Denoiser().to(DEVICE, torch.bfloat16).eval()
    times = torch.arange(PASSES, device=DEVICE)
    shape = (IMAGES, CHANNELS, SIDE, SIDE)
    latents = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
    passes = 0
    while turns.step():
        noise = model(latents, times[passes % PASSES], turns.planted)
        latents = 0.98 * latents - 0.02 * noise
        passes += 1
