"""A recommender of two towers, users and items of a batch compared with each other; the cause is fp32 products.

The fix allows TF32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, IDS, FIELDS, EMBEDDED, WIDTH, CODE, HEAT = 16_384, 50_000, 12, 64, 1024, 256, 0.05


class Tower(nn.Module):
    """The fields of a user or an item to a vector of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(IDS, EMBEDDED)
        self.layers = nn.Sequential(
            nn.Linear(FIELDS * EMBEDDED, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CODE),
        )  # fmt: skip

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(self.layers(self.embedding(fields).flatten(1)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    towers = nn.ModuleList([Tower(), Tower()]).to(DEVICE)
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3, fused=True)
    fields = torch.randint(IDS, (8, 2, BATCH, FIELDS), device=DEVICE)
    own, steps = torch.arange(BATCH, device=DEVICE), 0
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        users, items = (
            tower(each) for tower, each in zip(towers, fields[steps % len(fields)], strict=True)
        )
        update(optimizer, nn.functional.cross_entropy(users @ items.T / HEAT, own))
        steps += 1
