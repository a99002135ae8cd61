"""Kinds of things in a knowledge graph told by RGCNConv (torch_geometric), which goes through relations in Python.

It picks the edges of each relation by a mask. The fix is FastRGCNConv, which takes all at once.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.nn import FastRGCNConv, RGCNConv
from turns import Turns

THINGS, FACTS, RELATIONS, WIDTH, LAYERS, KNOWN, KINDS = 8_300, 58_000, 90, 32, 2, 1200, 11


class Rgcn(nn.Module):
    """Layers by relations; both forms of a layer have the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.things = nn.Embedding(THINGS, WIDTH)
        self.loops = nn.ModuleList(RGCNConv(WIDTH, WIDTH, RELATIONS) for _ in range(LAYERS))
        self.fast = nn.ModuleList(FastRGCNConv(WIDTH, WIDTH, RELATIONS) for _ in range(LAYERS))
        for loop, fast in zip(self.loops, self.fast, strict=True):
            fast.weight, fast.root, fast.bias = loop.weight, loop.root, loop.bias
        self.head = nn.Linear(WIDTH, KINDS)

    def forward(self, facts: torch.Tensor, kinds: torch.Tensor, planted: bool) -> torch.Tensor:
        x = self.things.weight
        for layer in self.loops if planted else self.fast:
            x = layer(x, facts, kinds).relu()
        return self.head(x[:KNOWN])


def run(turns: Turns) -> None:
    use_gpu(turns)
    facts = torch.randint(THINGS, (2, FACTS), device=DEVICE)
    kinds = torch.randint(RELATIONS, (FACTS,), device=DEVICE)
    labels = torch.randint(KINDS, (KNOWN,), device=DEVICE)
    model = Rgcn().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    while turns.step():
        update(optimizer, nn.functional.cross_entropy(model(facts, kinds, turns.planted), labels))
