"""A small GPT with a cache of keys and values, for prompts and for decoding; torch only."""

import torch
from torch import nn


class Block(nn.Module):
    """A transformer block that writes and reads a cache of (slots, 2, heads, tokens, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(
        self, x: torch.Tensor, cache: torch.Tensor, slots: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        """`x`: (batch, length, width); `slots`: (batch,); `places`: (batch, length), the place of
        each token in its request.
        """
        batch, length, width = x.shape
        shape = (batch, length, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 1, 3, 4)
        rows = slots[:, None].expand(batch, length)
        cache[rows, 0, :, places], cache[rows, 1, :, places] = k, v
        keys, values = cache[slots].unbind(1)
        scores = q.transpose(1, 2) @ keys.transpose(-1, -2) * keys.shape[-1] ** -0.5
        later = torch.arange(keys.shape[2], device=x.device) > places[:, None, :, None]
        y = scores.masked_fill(later, float("-inf")).softmax(-1) @ values
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CachedGpt(nn.Module):
    """Tokens at their places to the next token of each request."""

    def __init__(
        self, layers: int, width: int, slots: int, longest: int, heads: int = 8, words: int = 8192
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.place = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        cache = torch.zeros(layers, slots, 2, heads, longest, width // heads)
        self.register_buffer("cache", cache)

    def forward(
        self, tokens: torch.Tensor, slots: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        x = self.embedding(tokens) + self.place(places)
        for block, cache in zip(self.blocks, self.cache, strict=True):
            x = block(x, cache, slots, places)
        return self.head(self.norm(x[:, -1])).argmax(-1)
