"""Topics of papers by attention over citations, launched from Python; the fix replays a graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, update, use_gpu
from torch import nn
from turns import Turns

PAPERS, CITATIONS, WORDS, HEADS, WIDTH, LAYERS, TOPICS = 6000, 40_000, 512, 8, 16, 3, 16


class Attention(nn.Module):
    """Papers see those that they cite, weighted by a softmax over each paper's citations."""

    def __init__(self, inputs: int, width: int, *, is_last: bool) -> None:
        super().__init__()
        self.width, self.is_last = width, is_last
        self.values = nn.Linear(inputs, HEADS * width, bias=False)
        self.of_source = nn.Parameter(torch.randn(HEADS, width) / width**0.5)
        self.of_target = nn.Parameter(torch.randn(HEADS, width) / width**0.5)
        self.dropout = nn.Dropout(0.4)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        values = self.values(self.dropout(x)).view(-1, HEADS, self.width)
        left, right = (values * self.of_source).sum(-1), (values * self.of_target).sum(-1)
        scores = nn.functional.leaky_relu(
            left.index_select(0, source) + right.index_select(0, target), 0.2
        )
        # A shift that is the same for all citations of a paper changes nothing.
        shares = (scores - scores.detach().amax(0)).exp()
        sums = torch.zeros_like(left).index_add(0, target, shares)
        shares = self.dropout(shares / sums.index_select(0, target))
        seen = shares[..., None] * values.index_select(0, source)
        seen = torch.zeros_like(values).index_add(0, target, seen)
        return seen.mean(1) if self.is_last else nn.functional.elu(seen.flatten(1))


class Network(nn.Module):
    """Layers of attention; the last gives the topics."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [WORDS, *[HEADS * WIDTH] * (LAYERS - 1)]
        self.layers = nn.ModuleList(
            Attention(size, TOPICS if place == LAYERS - 1 else WIDTH, is_last=place == LAYERS - 1)
            for place, size in enumerate(sizes)
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, edges)
        return x


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Network().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4, capturable=True)
    words = (torch.rand(PAPERS, WORDS, device=DEVICE) < 0.02).float()
    own = torch.arange(PAPERS, device=DEVICE)
    edges = torch.randint(PAPERS, (2, CITATIONS), device=DEVICE)
    edges = torch.cat([edges, torch.stack([own, own])], 1)
    topics = torch.randint(TOPICS, (PAPERS,), device=DEVICE)
    is_known = (torch.rand(PAPERS, device=DEVICE) < 0.3).float()

    def step() -> None:
        losses = nn.functional.cross_entropy(model(words, edges), topics, reduction="none")
        update(optimizer, (losses * is_known).sum() / is_known.sum())

    run_eager_or_graph(turns, step)
