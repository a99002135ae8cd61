"""Tracks of particles found among a detector's hits by attention over edges (torch_geometric).

The cause does not say how many hits and events there are, so each sum over edges reads the highest
index from the GPU. The fix says it.
"""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torch_geometric.nn import global_mean_pool
from torch_geometric.utils import scatter, softmax
from turns import Turns

EVENTS, HITS, NEAR, SEEN, WIDTH, HEADS, LAYERS, GRAPHS = 40, 1000, 8, 4, 96, 4, 12, 4
Graph = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Layer(nn.Module):
    """Attention over the edges to a hit, and the mean of the event."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.edge, self.event = nn.Linear(SEEN, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, edges: torch.Tensor, ways: torch.Tensor, events: torch.Tensor, say: bool
    ) -> torch.Tensor:
        source, target = edges
        y = self.norm(x)
        keys = self.k(y)[source] + self.edge(ways)
        scores = (self.q(y)[target] * keys).unflatten(-1, (HEADS, -1)).sum(-1)
        shares = softmax(scores * (HEADS / WIDTH) ** 0.5, target, num_nodes=len(x) if say else None)
        sent = self.v(y)[source].unflatten(-1, (HEADS, -1)) * shares[..., None]
        seen = scatter(sent.flatten(1), target, dim_size=len(x) if say else None, reduce="sum")
        mean = global_mean_pool(y, events, size=EVENTS if say else None)
        return x + self.out(seen).relu() + self.event(mean)[events]


class Tracker(nn.Module):
    """How surely each edge lies on a track."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(SEEN, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = nn.Linear(2 * WIDTH, 1)

    def forward(self, graph: Graph, events: torch.Tensor, say: bool) -> torch.Tensor:
        hits, edges, ways = graph
        x = self.first(hits)
        for layer in self.layers:
            x = layer(x, edges, ways, events, say)
        return self.last(torch.cat([x[edges[0]], x[edges[1]]], -1)).sigmoid()


def draw_graph() -> Graph:
    """Hits, edges to each from itself and from others of its event, and the way along each edge."""
    hits = torch.randn(EVENTS * HITS, SEEN, device=DEVICE)
    target = torch.arange(EVENTS * HITS, device=DEVICE).repeat_interleave(NEAR).view(-1, NEAR)
    source = target // HITS * HITS + torch.randint(HITS, target.shape, device=DEVICE)
    source[:, 0] = target[:, 0]
    edges = torch.stack([source.flatten(), target.flatten()])
    return hits, edges, hits[edges[0]] - hits[edges[1]]


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    model = Tracker().to(DEVICE).eval()
    graphs = [draw_graph() for _ in range(GRAPHS)]
    events = torch.arange(EVENTS, device=DEVICE).repeat_interleave(HITS)
    steps, sure = 0, torch.zeros((), device=DEVICE)
    while turns.step():
        chances = model(graphs[steps % GRAPHS], events, say=not turns.planted)
        sure += (chances > 0.5).sum()
        steps += 1
