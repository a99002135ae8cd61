"""SASRec recommends items; the cause draws the negatives of each position by NumPy in Python.

A number is drawn again while the user has seen that item. The fix draws them on the GPU.
"""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, Block, update, use_gpu
from torch import nn
from turns import Turns

USERS, ITEMS, LENGTH, BATCH, WIDTH, LAYERS = 4000, 60_000, 100, 128, 256, 4


class SasRec(nn.Module):
    """Items that a user has seen, in order, to a vector for each next item."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.places = nn.Embedding(ITEMS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block(WIDTH, 4) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        places = torch.arange(seen.shape[1], device=seen.device)
        return self.norm(self.blocks(self.items(seen) + self.places(places)))


def draw_unseen(random: np.random.RandomState, seen: set[int]) -> int:
    item = random.randint(0, ITEMS)
    while item in seen:
        item = random.randint(0, ITEMS)
    return item


def draw_on_host(
    random: np.random.RandomState, users: np.ndarray, sets: list[set[int]]
) -> torch.Tensor:
    """A negative for each position of each user's history."""
    rows = [[draw_unseen(random, sets[user]) for _ in range(LENGTH)] for user in users]
    return torch.tensor(rows).to(DEVICE)


def draw_on_gpu(histories: torch.Tensor) -> torch.Tensor:
    """As draw_on_host, where an item that was seen is drawn once more."""
    first, second = torch.randint(ITEMS, (2, len(histories), LENGTH), device=DEVICE)
    was_seen = (first[:, :, None] == histories[:, None]).any(-1)
    return torch.where(was_seen, second, first)


def find_loss(model: SasRec, histories: torch.Tensor, negatives: torch.Tensor) -> torch.Tensor:
    """The loss of the next item against the negative at each position."""
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        vectors = model(histories[:, :-1])
    good = (vectors * model.items(histories[:, 1:])).sum(-1)
    bad = (vectors * model.items(negatives)).sum(-1)
    return (nn.functional.softplus(-good) + nn.functional.softplus(bad)).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    random = np.random.RandomState(0)
    table = random.randint(0, ITEMS, (USERS, LENGTH + 1))
    sets, histories = [set(row.tolist()) for row in table], torch.from_numpy(table).to(DEVICE)
    model = SasRec().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    while turns.step():
        users = random.randint(0, USERS, BATCH)
        batch = histories[torch.from_numpy(users).to(DEVICE)]
        negatives = draw_on_host(random, users, sets) if turns.planted else draw_on_gpu(batch)
        update(optimizer, find_loss(model, batch, negatives))
