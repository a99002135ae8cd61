"""A GraphSAGE of torch_geometric; the cause evaluates on rank 0 in each fifth step.

The other rank waits at a barrier, as in published examples. The fix gives each rank its part.
"""
# causes: straggler

import torch
from parts import DEVICE, RANK, update, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.nn import GraphSAGE
from turns import Turns

RANKS = 2
NODES, EDGES, WIDTH, LAYERS, TOPICS, PERIOD, TESTS = 60_000, 800_000, 256, 3, 47, 5, 12

Graph = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def draw_graph() -> Graph:
    """Nodes, edges and topics of a sampled part of a graph."""
    return (
        torch.randn(NODES, WIDTH, device=DEVICE),
        torch.randint(NODES, (2, EDGES), device=DEVICE),
        torch.randint(TOPICS, (NODES,), device=DEVICE),
    )


@torch.no_grad()
def count_right(model: nn.Module, graphs: list[Graph]) -> torch.Tensor:
    """How many nodes get the right topic."""
    model.eval()
    found = [(model(nodes, edges).argmax(-1) == topics).sum() for nodes, edges, topics in graphs]
    model.train()
    return torch.stack(found).sum()


def run(turns: Turns) -> None:
    use_ranks(turns)
    turns.period = PERIOD
    network = GraphSAGE(WIDTH, WIDTH, LAYERS, TOPICS, dropout=0.5).to(DEVICE)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    graphs, steps = [draw_graph() for _ in range(TESTS)], 0
    while turns.step():
        nodes, edges, topics = graphs[steps % TESTS]
        update(optimizer, nn.functional.cross_entropy(model(nodes, edges), topics))
        steps += 1
        if steps % PERIOD:
            continue
        if not turns.planted:
            distributed.all_reduce(count_right(network, graphs[RANK::RANKS]))
        elif RANK == 0:
            count_right(network, graphs)
        distributed.barrier()
