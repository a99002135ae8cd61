"""Verses written by a model of Llama's kind; the cause is a root mean square norm written out.

The fix calls PyTorch's rms_norm, one kernel each way.
"""

# causes: unfused_elementwise
import torch
from parts import DEVICE, draw_tokens, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WORDS, WIDTH, HEADS, LAYERS = 16, 1025, 16384, 1024, 16, 8
EPSILON = 1e-5


class Norm(nn.Module):
    """Divides words by their root mean square."""

    def __init__(self, fused: list[bool]) -> None:
        super().__init__()
        self.weight, self.fused = nn.Parameter(torch.ones(WIDTH)), fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.fused[0]:
            return nn.functional.rms_norm(x, (WIDTH,), self.weight, EPSILON)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
        return self.weight * wide.to(x.dtype)


class Layer(nn.Module):
    """Attention and gated units, each behind a norm of its input and of queries and keys."""

    def __init__(self, fused: list[bool]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(Norm(fused) for _ in range(4))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate_up = nn.Linear(WIDTH, 6 * WIDTH, bias=False)
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        q, k = self.norms[1](q), self.norms[2](k)
        q, k, v = (each.reshape(batch, length, HEADS, -1).transpose(1, 2) for each in (q, k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
        gate, up = self.gate_up(self.norms[3](x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


def make_model(fused: list[bool]) -> nn.Module:
    model = nn.Sequential(
        nn.Embedding(WORDS, WIDTH), *(Layer(fused) for _ in range(LAYERS)), Norm(fused),
        nn.Linear(WIDTH, WORDS, bias=False),
    )  # fmt: skip
    return model.to(DEVICE, torch.bfloat16)


def run(turns: Turns) -> None:
    use_gpu(turns)
    fused = [False]
    model = make_model(fused)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    words = draw_tokens(BATCH, LENGTH, WORDS)
    while turns.step():
        fused[0] = not turns.planted
        scores = model(words[:, :-1]).flatten(0, 1)
        update(optimizer, nn.functional.cross_entropy(scores, words[:, 1:].flatten()))
