"""Energies of molecules on catalysts by a Graphormer in PyTorch; the cause writes attention out.

Scores, a bias by the atoms' distances and a softmax pass through memory. The fix calls
scaled_dot_product_attention.
"""
# causes: unfused_attention
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

SYSTEMS, ATOMS, KINDS, WIDTH, HEADS, LAYERS, SHAPES, REACH = 32, 512, 90, 768, 12, 24, 32, 12.0


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What each atom takes of all others."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
    shares = nn.functional.softmax(scores, dim=-1, dtype=torch.float32)
    return shares.to(v.dtype) @ v


class Layer(nn.Module):
    """Attention and a small network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: torch.Tensor, bias: torch.Tensor, planted: bool) -> torch.Tensor:
        parts = self.qkv(self.norm1(x)).view(SYSTEMS, ATOMS, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        if planted:
            mixed = attend(q, k, v, bias)
        else:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Graphormer(nn.Module):
    """Kinds and places of atoms to the energy of each system."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.shapes = nn.Embedding(KINDS, WIDTH), nn.Linear(SHAPES, HEADS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)
        self.register_buffer("centres", torch.linspace(0, REACH, SHAPES))

    def find_bias(self, places: torch.Tensor) -> torch.Tensor:
        """A bias of each head for each pair of atoms."""
        distances = torch.cdist(places, places).to(self.centres.dtype)
        shapes = torch.exp(-2 * (distances[..., None] - self.centres).square())
        return self.shapes(shapes).permute(0, 3, 1, 2).contiguous()

    def forward(self, kinds: torch.Tensor, places: torch.Tensor, planted: bool) -> torch.Tensor:
        bias, x = self.find_bias(places), self.kinds(kinds)
        for layer in self.layers:
            x = layer(x, bias, planted)
        return self.head(self.norm(x)).sum((1, 2))


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Graphormer().to(DEVICE, torch.bfloat16).eval()
    kinds = torch.randint(KINDS, (SYSTEMS, ATOMS), device=DEVICE)
    places = REACH * torch.rand(SYSTEMS, ATOMS, 3, device=DEVICE)
    energies = []
    while turns.step():
        energies.append(model(kinds, places, turns.planted))
        places.add_(torch.randn_like(places), alpha=0.01)
