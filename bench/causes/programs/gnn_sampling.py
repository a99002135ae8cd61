"""A graph network; the cause samples neighbours in Python before each step."""
# causes: idle
import random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.nn import SAGEConv
from turns import Turns

NODES, SEEDS, NEIGHBOURS = 200_000, 4096, 10


def sample(neighbours: list[list[int]]) -> torch.Tensor:
    """Edges of the seeds' neighbourhood, of shape (2, edges)."""
    sources, targets = [], []
    for seed in random.sample(range(NODES), SEEDS):
        for node in random.sample(neighbours[seed % 1000], NEIGHBOURS):
            sources.append(node)
            targets.append(seed)
    return torch.tensor([sources, targets])


class Sage(nn.Module):
    """Three layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SAGEConv(256, 256) for _ in range(3))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, edges).relu()
        return x


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    neighbours = [[random.randrange(NODES) for _ in range(50)] for _ in range(1000)]
    x = torch.rand(NODES, 256, device=DEVICE)
    model = Sage().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    ready = sample(neighbours).to(DEVICE)
    while turns.step():
        edges = sample(neighbours).to(DEVICE) if turns.planted else ready
        update(optimizer, model(x, edges).square().mean())
