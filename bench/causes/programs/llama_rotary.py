"""A Llama in bfloat16, RMSNorm and rotary positions written out; fix: F.rms_norm and torch.compile."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, draw_tokens, update, use_gpu
from torch import nn
from torch.nn import functional
from turns import Turns

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 8, 2048, 2048, 16, 6, 8192


def normalize_by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
    return weight * y.to(x.dtype)


def normalize(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.rms_norm(x, (WIDTH,), weight, 1e-6)


def turn_halves(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotate(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple:
    return q * cos + turn_halves(q) * sin, k * cos + turn_halves(k) * sin


class Layer(nn.Module):
    """A layer of Llama with its two functions given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight1, self.weight2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.qkv, self.out = (nn.Linear(WIDTH, n * WIDTH, bias=False) for n in (3, 1))
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x, normed, rotated, cos, sin):  # noqa: ANN001, ANN201
        parts = self.qkv(normed(x, self.weight1)).view(BATCH, LENGTH, 3, HEADS, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        q, k = rotated(q, k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = normed(x, self.weight2)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE).bfloat16()
    embedding = nn.Embedding(WORDS, WIDTH).to(DEVICE).bfloat16()
    head = nn.Linear(WIDTH, WORDS, bias=False).to(DEVICE).bfloat16()
    parameters = [*layers.parameters(), *embedding.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    size = WIDTH // HEADS
    angles = torch.outer(torch.arange(LENGTH), 1e4 ** -(torch.arange(0, size, 2) / size))
    angles = torch.cat((angles, angles), -1)
    cos, sin = (part.to(DEVICE).bfloat16() for part in (angles.cos(), angles.sin()))
    compiled = torch.compile(rotate)
    tokens = draw_tokens(BATCH, LENGTH + 1, WORDS)
    while turns.step():
        normed, rotated = (normalize_by_hand, rotate) if turns.planted else (normalize, compiled)
        x = embedding(tokens[:, :-1])
        for layer in layers:
            x = layer(x, normed, rotated, cos, sin)
        logits = head(normalize(x, layers[0].weight1.detach()))
        update(optimizer, functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))
