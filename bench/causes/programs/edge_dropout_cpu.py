"""A GraphSAGE of torch_geometric on a whole graph; the cause drops edges on the CPU in each step.

The fix drops them on the GPU.
"""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import dropout_edge
from turns import Turns

NODES, EDGES, FEATURES, WIDTH, CLASSES = 120_000, 4_000_000, 64, 96, 40


class Sage(nn.Module):
    """Three layers that take the mean of the neighbours."""

    def __init__(self) -> None:
        super().__init__()
        widths = (FEATURES, WIDTH, WIDTH)
        self.layers = nn.ModuleList(SAGEConv(width, WIDTH) for width in widths)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in widths)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x, edges)).relu()
        return self.head(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Sage().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    nodes = torch.randn(NODES, FEATURES, device=DEVICE)
    labels = torch.randint(CLASSES, (NODES,), device=DEVICE)
    on_host = torch.randint(NODES, (2, EDGES))
    on_gpu = on_host.to(DEVICE)
    while turns.step():
        if turns.planted:
            edges = dropout_edge(on_host, p=0.2)[0].to(DEVICE)
        else:
            edges = dropout_edge(on_gpu, p=0.2)[0]
        update(optimizer, nn.functional.cross_entropy(model(nodes, edges), labels))
