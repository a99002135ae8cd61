"""Friends suggested by a GraphSAGE (torch_geometric); the cause draws strangers in Python.

It draws two people again and again, and looks them up in a set. The fix draws all pairs on the GPU,
and gives those that are friends no weight.
"""

# causes: idle
import itertools
import random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.nn import SAGEConv
from turns import Turns

PEOPLE, FRIENDSHIPS, FEATURES, WIDTH, DRAWN = 100_000, 300_000, 128, 384, 15_000


class Network(nn.Module):
    """Vectors of people by those of their friends."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (FEATURES, WIDTH, WIDTH, WIDTH)
        self.layers = nn.ModuleList(
            SAGEConv(size, next_size) for size, next_size in itertools.pairwise(sizes)
        )

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.normalize(nn.functional.relu(layer(x, edges)), dim=1)
        return x


def draw_on_host(friends: set[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs of people who are no friends, and their weights."""
    pairs = []
    while len(pairs) < DRAWN:
        first, second = random.randrange(PEOPLE), random.randrange(PEOPLE)
        if PEOPLE * first + second not in friends:
            pairs.append((first, second))
    return torch.tensor(pairs, device=DEVICE).T, torch.ones(DRAWN, device=DEVICE)


def draw_on_gpu(keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As draw_on_host; `keys` are the friendships as sorted numbers."""
    pairs = torch.randint(PEOPLE, (2, DRAWN), device=DEVICE)
    numbers = PEOPLE * pairs[0] + pairs[1]
    places = torch.searchsorted(keys, numbers).clamp(max=len(keys) - 1)
    return pairs, (keys[places] != numbers).float()


def compare(people: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    return (people.index_select(0, pairs[0]) * people.index_select(0, pairs[1])).sum(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    torch.set_float32_matmul_precision("high")
    model = Network().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    features = torch.randn(PEOPLE, FEATURES, device=DEVICE)
    edges = torch.randint(PEOPLE, (2, FRIENDSHIPS), device=DEVICE)
    keys = (PEOPLE * edges[0] + edges[1]).sort().values
    friends, known = set(keys.tolist()), 0
    while turns.step():
        strangers, weights = draw_on_host(friends) if turns.planted else draw_on_gpu(keys)
        people = model(features, edges)
        near = edges[:, known : known + DRAWN]
        loss = nn.functional.softplus(-compare(people, near)).mean()
        loss = loss + (weights * nn.functional.softplus(compare(people, strangers))).mean()
        update(optimizer, loss)
        known = (known + DRAWN) % FRIENDSHIPS
