"""A graph network; the cause norms its edges by degrees that NumPy counts anew in each step."""
# causes: idle, pageable_copy
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.nn import GCNConv
from turns import Turns

NODES, EDGES, WIDTH = 60_000, 1_200_000, 64


class Gcn(nn.Module):
    """Three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(GCNConv(WIDTH, WIDTH, normalize=False) for _ in range(3))

    def forward(self, x: torch.Tensor, edges: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, edges, weights).relu()
        return x


def norm_edges(edges: np.ndarray) -> torch.Tensor:
    """The weight of each edge: one by the roots of the degrees of its ends."""
    roots = np.sqrt(np.maximum(np.bincount(edges.ravel(), minlength=NODES), 1))
    return torch.from_numpy((1 / (roots[edges[0]] * roots[edges[1]])).astype(np.float32))


def run(turns: Turns) -> None:
    use_gpu(turns)
    on_host = np.random.default_rng(0).integers(0, NODES, (2, EDGES))
    edges, ready = torch.from_numpy(on_host).to(DEVICE), norm_edges(on_host).to(DEVICE)
    x = torch.rand(NODES, WIDTH, device=DEVICE)
    model = Gcn().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    while turns.step():
        weights = norm_edges(on_host).to(DEVICE) if turns.planted else ready
        update(optimizer, model(x, edges, weights).square().mean())
