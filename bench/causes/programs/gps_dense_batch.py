"""Molecules in torch_geometric, by messages and attention; each layer makes its dense batch anew.

Its sizes are read from the GPU. The fix finds the places of the atoms once, on the CPU.
"""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINEConv, global_add_pool
from torch_geometric.utils import to_dense_batch
from turns import Turns

MOLECULES, LEAST, MOST, WIDTH, LAYERS, BATCHES, ATOMS = 1536, 12, 40, 256, 8, 4, 30


def draw_molecule() -> Data:
    """A chain of atoms with some rings."""
    atoms = int(torch.randint(LEAST, MOST + 1, ()))
    chain = torch.stack([torch.arange(atoms - 1), torch.arange(1, atoms)])
    bonds = torch.cat([chain, torch.randint(atoms, (2, atoms // 3))], 1)
    bonds = torch.cat([bonds, bonds.flip(0)], 1)
    kinds = torch.randint(4, (bonds.shape[1],))
    atoms_of = torch.randint(ATOMS, (atoms,))
    return Data(x=atoms_of, edge_index=bonds, edge_attr=kinds, y=torch.randn(1))


def find_places(batch: torch.Tensor) -> torch.Tensor:
    """Where each atom is in a dense batch of MOST atoms a molecule."""
    counts = torch.bincount(batch, minlength=MOLECULES)
    first = counts.cumsum(0) - counts
    return batch * MOST + torch.arange(len(batch)) - first[batch]


class Layer(nn.Module):
    """Messages along bonds, attention in the molecule, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.local = GINEConv(mlp)
        self.attention = nn.MultiheadAttention(WIDTH, 8, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(
        self, x: torch.Tensor, bonds: torch.Tensor, graph: Data, planted: bool
    ) -> torch.Tensor:
        local = self.norms[0](x + self.local(x, graph.edge_index, bonds))
        if planted:
            dense, mask = to_dense_batch(x, graph.batch)
            seen = self.attend(dense, mask)[mask]
        else:
            dense = x.new_zeros(MOLECULES * MOST, WIDTH).index_copy(0, graph.places, x)
            seen = self.attend(dense.view(MOLECULES, MOST, WIDTH), graph.mask)
            seen = seen.reshape(-1, WIDTH).index_select(0, graph.places)
        x = local + self.norms[1](x + seen)
        return self.norms[2](x + self.narrow(self.wide(x).relu()))

    def attend(self, dense: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.attention(dense, dense, dense, key_padding_mask=~mask, need_weights=False)[0]


class Gps(nn.Module):
    """Layers, and a sum over the atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.atoms, self.bonds = nn.Embedding(ATOMS, WIDTH), nn.Embedding(4, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, graph: Data, planted: bool) -> torch.Tensor:
        x, bonds = self.atoms(graph.x), self.bonds(graph.edge_attr)
        for layer in self.layers:
            x = layer(x, bonds, graph, planted)
        return self.head(global_add_pool(x, graph.batch, MOLECULES)).squeeze(-1)


def draw_batch() -> Data:
    graph = Batch.from_data_list([draw_molecule() for _ in range(MOLECULES)])
    graph.places = find_places(graph.batch)
    mask = torch.zeros(MOLECULES * MOST, dtype=torch.bool)
    mask[graph.places] = True
    graph.mask = mask.view(MOLECULES, MOST)
    return graph.to(DEVICE)


def run(turns: Turns) -> None:
    use_gpu(turns)
    graphs = [draw_batch() for _ in range(BATCHES)]
    model = Gps().to(DEVICE)
    torch.set_float32_matmul_precision("high")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps = 0
    while turns.step():
        graph = graphs[steps % BATCHES]
        loss = nn.functional.l1_loss(model(graph, turns.planted), graph.y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        steps += 1
