"""An MLP of gated units with limits, as gpt-oss has it, written out; fix: torch.compile."""
# causes: unfused_elementwise
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

WORDS, WIDTH, HIDDEN, LAYERS, ALPHA, LIMIT = 16384, 1536, 4096, 8, 1.702, 7.0


def gate_units(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    gate = gate.clamp(max=LIMIT)
    up = up.clamp(min=-LIMIT, max=LIMIT)
    return (up + 1) * (gate * torch.sigmoid(gate * ALPHA))


class Layer(nn.Module):
    """A residual MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * HIDDEN), nn.Linear(HIDDEN, WIDTH)


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE).bfloat16()
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-5, fused=True)
    words = torch.randn(WORDS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    compiled = torch.compile(gate_units)
    while turns.step():
        gated = gate_units if turns.planted else compiled
        x = words
        for layer in layers:
            x = x + layer.down(gated(layer.up(layer.norm(x))))
        update(optimizer, (x - words).square().mean())
