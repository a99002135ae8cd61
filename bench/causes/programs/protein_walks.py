"""Functions of proteins told by a graph network (torch_geometric); the cause is a transform in the dataset.

It finds the probabilities of walks that return anew for each graph. The fix does so once, before.
"""
# causes: idle
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import Dataset
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINConv, global_mean_pool
from torch_geometric.transforms import AddRandomWalkPE, BaseTransform
from turns import Turns

PROTEINS, BATCH, FEATURES, WIDTH, LAYERS, CLASSES, WALK = 600, 32, 32, 512, 10, 100, 10


class Proteins(Dataset[Data]):
    """Random graphs of residues, each with one of the classes."""

    def __init__(self, graphs: list[Data], transform: BaseTransform | None) -> None:
        self.graphs, self.transform = graphs, transform

    def __len__(self) -> int:
        return len(self.graphs)

    def __getitem__(self, place: int) -> Data:
        graph = self.graphs[place]
        return self.transform(graph) if self.transform else graph


class Network(nn.Module):
    """Layers that sum up neighbours, and the scores of each graph's classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES + WALK, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)
        self.layers = nn.ModuleList(GINConv(self.make_inner()) for _ in range(LAYERS))

    @staticmethod
    def make_inner() -> nn.Module:
        return nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, batch: Batch) -> torch.Tensor:
        x = self.first(torch.cat([batch.x, batch.walks], 1))
        for layer in self.layers:
            x = x + layer(x, batch.edge_index).relu()
        return self.last(global_mean_pool(x, batch.batch, size=BATCH))


def draw_protein() -> Data:
    residues = int(torch.randint(80, 160, ()))
    contacts = torch.randint(residues, (2, 12 * residues))
    x = torch.rand(residues, FEATURES)
    return Data(x=x, edge_index=contacts, y=torch.randint(CLASSES, (1,)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    add_walks = AddRandomWalkPE(WALK, attr_name="walks")
    proteins = [draw_protein() for _ in range(PROTEINS)]
    datasets = {
        True: Proteins(proteins, add_walks),
        False: Proteins([add_walks(protein) for protein in proteins], None),
    }
    loaders = {
        planted: repeat(DataLoader(dataset, BATCH, shuffle=True, drop_last=True))
        for planted, dataset in datasets.items()
    }
    model = Network().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        batch = next(loaders[turns.planted]).to(DEVICE)
        update(optimizer, nn.functional.cross_entropy(model(batch), batch.y))
