"""A language model on documents packed into one row; the cause attends to one after the other.

The fix attends to all at once, padded to the longest of the batch; all else stays packed.
"""
# causes: tiny_kernels, host_bound
import random
from dataclasses import dataclass

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

WORDS, WIDTH, HEADS, LAYERS, DOCUMENTS, LEAST, MOST = 16_384, 512, 8, 8, 32, 128, 384


@dataclass(frozen=True)
class Packed:
    """Words of all documents, one after the other; `lengths` are on the GPU.

    `padded`: the place of each word of the padded documents; `back`: the place there of each word.
    """

    words: torch.Tensor
    lengths: torch.Tensor
    padded: torch.Tensor
    back: torch.Tensor


def pack() -> Packed:
    """Documents of random lengths, as a loader would give them."""
    lengths = torch.tensor([random.randint(LEAST, MOST) for _ in range(DOCUMENTS)])
    starts = lengths.cumsum(0) - lengths
    places, total = torch.arange(int(lengths.max())), int(lengths.sum())
    padded = (starts[:, None] + places).clamp(max=total - 1)
    back = (places < lengths[:, None]).flatten().nonzero()[:, 0]
    parts = (torch.randint(WORDS, (total,)), lengths, padded, back)
    return Packed(*(part.to(DEVICE) for part in parts))


def attend_one_by_one(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: Packed) -> torch.Tensor:
    """Attention within documents; q, k, v: (heads, words, width)."""
    lengths = p.lengths.tolist()
    parts = zip(*(one.split(lengths, dim=1) for one in (q, k, v)), strict=True)
    attend = nn.functional.scaled_dot_product_attention
    return torch.cat([attend(*(one[None] for one in part), is_causal=True)[0] for part in parts], 1)


def attend_padded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: Packed) -> torch.Tensor:
    """As attend_one_by_one; what is padded comes last, where no word sees it."""
    q, k, v = (one[:, p.padded].transpose(0, 1) for one in (q, k, v))
    y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(0, 1).flatten(1, 2)[:, p.back]


class Layer(nn.Module):
    """A transformer layer over packed documents."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, packed: Packed, one_by_one: bool) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(len(x), 3, HEADS, -1).permute(1, 2, 0, 3)
        attend = attend_one_by_one if one_by_one else attend_padded
        x = x + self.out(attend(q, k, v, packed).transpose(0, 1).flatten(1))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Packed words to the logits of the word after each."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, packed: Packed, one_by_one: bool) -> torch.Tensor:
        x = self.words(packed.words)
        for layer in self.layers:
            x = layer(x, packed, one_by_one)
        return self.head(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    model, batches, steps = Model().to(DEVICE), [pack() for _ in range(8)], 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        packed, steps = batches[steps % len(batches)], steps + 1
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(packed, turns.planted)
        update(optimizer, nn.functional.cross_entropy(logits[:-1].float(), packed.words[1:]))
