"""A small GPT with a cache of keys and values, for prompts and for decoding; torch only."""

import torch
from torch import nn

OF_KEYS = 4
"""Heads of queries for each head of keys and values, as in most models that are served."""


class Block(nn.Module):
    """A transformer block that writes and reads a cache of (slots, 2, heads, tokens, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        columns = (heads + 2 * (heads // OF_KEYS)) * self.size
        self.qkv, self.out = nn.Linear(width, columns), nn.Linear(width, width)
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
        fewer = self.heads // OF_KEYS
        rows = self.qkv(self.norm1(x)).view(batch, length, -1, self.size)
        q, k, v = rows.split((self.heads, fewer, fewer), 2)
        of_token = slots[:, None].expand(batch, length)
        cache[of_token, 0, :, places], cache[of_token, 1, :, places] = k, v
        keys, values = cache[slots].unbind(1)
        q = q.transpose(1, 2).reshape(batch, fewer, OF_KEYS * length, self.size)
        scores = q @ keys.transpose(-1, -2) * self.size**-0.5
        later = torch.arange(keys.shape[2], device=x.device) > places[:, None, :, None]
        scores = scores.view(batch, self.heads, length, -1).masked_fill(later, float("-inf"))
        weights = scores.softmax(-1).view(batch, fewer, OF_KEYS * length, -1)
        y = (weights @ values).view(batch, self.heads, length, self.size)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class CachedGpt(nn.Module):
    """Tokens at their places to what `choose` takes: an entry for each token."""

    def __init__(
        self, layers: int, width: int, slots: int, longest: int, heads: int = 8, words: int = 8192
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.place = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        cache = torch.zeros(layers, slots, 2, heads // OF_KEYS, longest, width // heads)
        self.register_buffer("cache", cache)

    def forward(
        self, tokens: torch.Tensor, slots: torch.Tensor, places: torch.Tensor, layers: int = 0
    ) -> torch.Tensor:
        """`layers`: the first ones alone draft tokens; 0 for all."""
        x = self.embedding(tokens) + self.place(places)
        many = layers or len(self.blocks)
        for block, cache in zip(self.blocks[:many], self.cache[:many], strict=True):
            x = block(x, cache, slots, places)
        return x

    def choose(self, x: torch.Tensor) -> torch.Tensor:
        """The next token after each entry."""
        return self.head(self.norm(x)).argmax(-1)
