"""Images by a diffusion transformer; the cause compares words in fp32 (upcast_attention).

The fix compares them in bf16.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, WORDS, WIDTH, HEADS, LAYERS, ROUNDS = 16, 1024, 1280, 8, 4, 4


class Attention(nn.Module):
    """Attention by single products, as image models that change it on the way have it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, upcast: bool) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads.reshape(3, batch * HEADS, length, -1)
        if upcast:
            query, key = query.float(), key.float()
        empty = query.new_empty(batch * HEADS, length, length)
        scores = torch.baddbmm(empty, query, key.mT, beta=0, alpha=query.shape[-1] ** -0.5)
        mixed = torch.bmm(scores.softmax(-1).to(value.dtype), value)
        return self.out(mixed.view(batch, HEADS, length, -1).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A layer that is led by the time of the diffusion."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.lead, self.attention = nn.Linear(WIDTH, 4 * WIDTH), Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, time: torch.Tensor, upcast: bool) -> torch.Tensor:
        scale1, shift1, scale2, shift2 = self.lead(time)[:, None].chunk(4, -1)
        x = x + self.attention(self.norm1(x) * (1 + scale1) + shift1, upcast)
        return x + self.mlp(self.norm2(x) * (1 + scale2) + shift2)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE).bfloat16()
    times = torch.randn(ROUNDS, 1, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    image = torch.zeros(BATCH, WORDS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    while turns.step():
        image.normal_()
        for time in times:
            noise = image
            for layer in layers:
                noise = layer(noise, time, turns.planted)
            image = 0.9 * image - 0.1 * noise
