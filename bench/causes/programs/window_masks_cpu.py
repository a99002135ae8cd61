"""Contracts sorted by a transformer that looks at near words; the cause makes its masks on the CPU.

Each layer has a window of its own, and makes the mask of it in its forward pass, to copy it to the
GPU. The fix makes it there.
"""
# causes: idle, pageable_copy, synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, HEADS, WORDS, KINDS, BATCHES = 16, 768, 10, 640, 10, 20_000, 40, 8


def make_mask(length: int, window: int, device: str) -> torch.Tensor:
    """What is added to the scores: words that are too far away do not count."""
    places = torch.arange(length, device=device)
    apart = (places[None, :] - places[:, None]).abs()
    # The first words see all others and are seen by them.
    near = (apart <= window) | (places[None, :] < 16) | (places[:, None] < 16)
    return torch.zeros(length, length, device=device).masked_fill(~near, float("-inf"))


class WindowAttention(nn.Module):
    """Attention to words in a window."""

    def __init__(self, turns: Turns, window: int) -> None:
        super().__init__()
        self.turns, self.window = turns, window
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, 3, HEADS, width // HEADS)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        device = "cpu" if self.turns.planted else DEVICE
        mask = make_mask(length, self.window, device).to(x.device).to(q.dtype)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and two linear layers, each beside its input."""

    def __init__(self, turns: Turns, window: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = WindowAttention(turns, window)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Contracts(nn.Module):
    """Words to the kind of a contract; the windows grow with the layers."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer(turns, 32 + 16 * layer) for layer in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places.weight
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x).mean(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Contracts(turns).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts = torch.randint(WORDS, (BATCHES, BATCH, LENGTH)).pin_memory()
    kinds = torch.randint(KINDS, (BATCHES, BATCH)).pin_memory()
    step = 0
    while turns.step():
        words = texts[step % BATCHES].to(DEVICE, non_blocking=True)
        wanted = kinds[step % BATCHES].to(DEVICE, non_blocking=True)
        step += 1
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(words)
        update(optimizer, nn.functional.cross_entropy(logits.float(), wanted))
