"""Parts of a large graph under DDP; the cause copies their features from pageable memory.

The fix pins that memory, and does not wait for the copies.
"""
# causes: pageable_copy
from copy import copy

import torch
from parts import DEVICE, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from turns import Turns

RANKS = 2
NODES, EDGES, SEEDS, FEATURES, CLASSES, LAYERS, BATCHES = 120_000, 1_000_000, 8192, 256, 64, 3, 3


def draw_part() -> Data:
    """The neighbours of some papers, as a sampler gives them; the papers come first."""
    sources = torch.randint(NODES, (EDGES,))
    targets = torch.randint(NODES, (EDGES,)).sort().values
    return Data(
        x=torch.randn(NODES, FEATURES),
        edge_index=torch.stack([sources, targets]),
        y=torch.randint(CLASSES, (SEEDS,)),
    )


class Sage(nn.Module):
    """Layers that take the mean of neighbours, and the kinds of the first papers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SAGEConv(FEATURES, FEATURES) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.LayerNorm(FEATURES) for _ in range(LAYERS))
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + norm(layer(x, edges)).relu()
        return self.head(x[:SEEDS])


def run(turns: Turns) -> None:
    use_ranks(turns)
    torch.set_float32_matmul_precision("high")
    model = DistributedDataParallel(Sage().to(DEVICE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    parts = [draw_part() for _ in range(BATCHES)]
    pinned = [part.clone().pin_memory() for part in parts]
    steps = 0
    while turns.step():
        ready = parts if turns.planted else pinned
        # A copy, as `to` of Data moves what it is called on.
        part = copy(ready[steps % BATCHES]).to(DEVICE, non_blocking=not turns.planted)
        update(optimizer, nn.functional.cross_entropy(model(part.x, part.edge_index), part.y))
        steps += 1
