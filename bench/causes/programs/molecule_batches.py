"""A graph network of molecules (torch_geometric); the cause joins a batch of them in each step."""
# causes: idle
import random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool
from turns import Turns

MOLECULES, BATCH, FEATURES, WIDTH, LAYERS, READY = 4096, 512, 32, 256, 4, 8


def draw_molecule() -> Data:
    atoms = random.randint(12, 36)
    bonds = torch.randint(atoms, (2, 2 * atoms))
    return Data(x=torch.rand(atoms, FEATURES), edge_index=bonds, y=torch.rand(1, 1))


def join(molecules: list[Data]) -> Batch:
    """A batch of molecules by chance, on the GPU."""
    return Batch.from_data_list(random.sample(molecules, BATCH)).to(DEVICE)


class Network(nn.Module):
    """Layers that sum up neighbours, and a value for each molecule."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, 1)
        self.layers = nn.ModuleList(GINConv(self.make_inner()) for _ in range(LAYERS))

    @staticmethod
    def make_inner() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, batch: Batch) -> torch.Tensor:
        x = self.first(batch.x)
        for layer in self.layers:
            x = x + layer(x, batch.edge_index).relu()
        return self.last(global_add_pool(x, batch.batch, size=BATCH))


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    molecules = [draw_molecule() for _ in range(MOLECULES)]
    ready = [join(molecules) for _ in range(READY)]
    model = Network().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    while turns.step():
        batch = join(molecules) if turns.planted else random.choice(ready)
        update(optimizer, nn.functional.l1_loss(model(batch), batch.y))
