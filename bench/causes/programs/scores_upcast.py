"""Texts trained on in bfloat16, their attention compared and mixed in fp32; fix: in bfloat16."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, WORDS, WIDTH, HEADS, LAYERS = 8, 1024, 1024, 8, 6


class Layer(nn.Module):
    """Attention by single products, and two products of each word."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, upcast: bool) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads
        if upcast:
            query, key, value = query.float(), key.float(), value.float()
        scores = query @ key.mT * query.shape[-1] ** -0.5
        mixed = (scores.softmax(-1) @ value).to(x.dtype)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE).bfloat16()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-5, fused=True)
    texts = torch.randn(BATCH, WORDS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    while turns.step():
        x = texts
        for layer in layers:
            x = layer(x, turns.planted)
        update(optimizer, (x - texts).square().mean())
