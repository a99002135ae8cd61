"""A compiled encoder in fp16; the cause asks in each layer whether a value is infinite."""
# causes: synchronization, host_bound
import os
import tempfile

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, MOST = 16, 512, 768, 12, 16, 60_000.0


class Layer(nn.Module):
    """Attention and an MLP, each beside a shortcut that stays within the range of fp16."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.grow, self.shrink = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(mixed.transpose(1, 2).flatten(2))

    def think(self, x: torch.Tensor) -> torch.Tensor:
        return self.shrink(nn.functional.gelu(self.grow(self.norm2(x))))


class AskingLayer(Layer):
    """Clamps values only if one is infinite."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(x)
        if torch.isinf(x).any():
            x = x.clamp(-MOST, MOST)
        x = x + self.think(x)
        if torch.isinf(x).any():
            x = x.clamp(-MOST, MOST)
        return x


class ClampingLayer(Layer):
    """Clamps values always."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = (x + self.attend(x)).clamp(-MOST, MOST)
        return (x + self.think(x)).clamp(-MOST, MOST)


class Encoder(nn.Module):
    """An embedding and compiled layers."""

    def __init__(self, kind: type[Layer]) -> None:
        super().__init__()
        self.embedding, self.layers = nn.Embedding(8192, WIDTH), nn.ModuleList()
        for _ in range(LAYERS):
            self.layers.append(kind())
            self.layers[-1].compile()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x)
        return x.mean(1)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    # No run finds what an earlier one compiled.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    asking, clamping = (
        Encoder(kind).to(DEVICE, torch.float16).eval() for kind in (AskingLayer, ClampingLayer)
    )
    words = torch.randint(8192, (BATCH, LENGTH), device=DEVICE)
    while turns.step():
        (asking if turns.planted else clamping)(words)
