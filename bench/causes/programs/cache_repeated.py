"""Answers decoded with grouped heads and long caches; the cause repeats the cache for all heads.

Four heads share a key, so the cause writes keys and values four times before its products and its
softmax, as textbooks of Llama do. The fix is SDPA with `enable_gqa`.
"""

# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, CONTEXT, WORDS, TAKEN = 16, 4096, 16384, 3
LAYERS, WIDTH, HEADS, GROUPS, SIZE, HIDDEN = 6, 4096, 32, 8, 128, 11008


def attend_by_hand(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    keys = keys.repeat_interleave(HEADS // GROUPS, dim=1)
    values = values.repeat_interleave(HEADS // GROUPS, dim=1)
    scores = query @ keys.transpose(2, 3) / SIZE**0.5
    return scores.float().softmax(-1).to(query.dtype) @ values


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """As attend_by_hand."""
    return nn.functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)


class Layer(nn.Module):
    """A layer of Llama's kind with a cache of a fixed size (positions are left out)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * SIZE, bias=False)
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.register_buffer("cache", torch.randn(2, BATCH, GROUPS, CONTEXT, SIZE))

    def forward(self, x: torch.Tensor, place: int, planted: bool) -> torch.Tensor:
        mixed = self.qkv(self.norm1(x)).view(BATCH, 1, -1, SIZE).transpose(1, 2)
        query, key, value = mixed.split((HEADS, GROUPS, GROUPS), dim=1)
        self.cache[0, :, :, place], self.cache[1, :, :, place] = key[:, :, 0], value[:, :, 0]
        keys, values = self.cache[:, :, :, : place + 1]
        seen = (attend_by_hand if planted else attend)(query, keys, values)
        x = x + self.out(seen.transpose(1, 2).reshape(BATCH, 1, -1))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    with torch.device(DEVICE):
        embedding = nn.Embedding(WORDS, WIDTH).to(torch.bfloat16)
        layers = [Layer().to(torch.bfloat16) for _ in range(LAYERS)]
        head = nn.Linear(WIDTH, WORDS, bias=False).to(torch.bfloat16)
    words = torch.randint(WORDS, (BATCH, 1), device=DEVICE)
    while turns.step():
        for place in range(CONTEXT - TAKEN, CONTEXT):
            x = embedding(words)
            for layer in layers:
                x = layer(x, place, turns.planted)
            words = head(x[:, -1]).argmax(-1, keepdim=True)
