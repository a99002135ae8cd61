"""Graphs classified by GraphConv (torch_geometric); the cause pools each graph by a boolean mask.

The fix is `global_mean_pool`. The other parts of the network take all graphs at once in both.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
import torch.nn as nn
import torch.nn.functional as F
from parts import use_gpu
from torch_geometric.nn import GraphConv, global_mean_pool
from turns import Turns

NUM_GRAPHS = 32
NODES_PER_GRAPH = 900
DEGREE = 5
IN_DIM, HIDDEN, CLASSES = 64, 384, 12


class GraphNet(nn.Module):
    """Layers of messages between neighbours, a mean of each graph's nodes, a classifier."""

    def __init__(self, num_layers=5):
        super().__init__()
        dims = [IN_DIM] + [HIDDEN] * num_layers
        self.convs = nn.ModuleList([GraphConv(a, b, aggr="mean") for a, b in zip(dims, dims[1:])])
        self.norms = nn.ModuleList([nn.LayerNorm(HIDDEN) for _ in range(num_layers)])
        self.head = nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))

    def readout_by_mask(self, h, batch):
        pooled = []
        for g in range(NUM_GRAPHS):
            nodes = h[batch == g]
            pooled.append(nodes.mean(dim=0))
        return torch.stack(pooled)

    def forward(self, x, edge_index, batch, by_mask):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(x, edge_index)))
        if by_mask:
            pooled = self.readout_by_mask(x, batch)
        else:
            pooled = global_mean_pool(x, batch, NUM_GRAPHS)
        return self.head(pooled)


def make_data():
    batch = torch.arange(NUM_GRAPHS, device="cuda").repeat_interleave(NODES_PER_GRAPH)
    n = len(batch)
    target = torch.arange(n, device="cuda").repeat_interleave(DEGREE)
    source = batch[target] * NODES_PER_GRAPH
    source = source + torch.randint(NODES_PER_GRAPH, (n * DEGREE,), device="cuda")
    x = torch.randn(n, IN_DIM, device="cuda")
    y = torch.randint(CLASSES, (NUM_GRAPHS,), device="cuda")
    return x, torch.stack([source, target]), batch, y


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    dataset = [make_data() for _ in range(4)]
    model = GraphNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    step = 0
    while turns.step():
        x, edge_index, batch, y = dataset[step % len(dataset)]
        step += 1
        optimizer.zero_grad()
        out = model(x, edge_index, batch, by_mask=turns.planted)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
