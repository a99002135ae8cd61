"""A torch-geometric ParticleNet tags jets; the cause finds neighbours by a k-d tree on the host.

The fix finds those of all jets on the GPU, by distances and `topk`.
"""

# causes: idle, synchronization
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from scipy.spatial import cKDTree
from torch import nn
from torch_geometric.nn import EdgeConv
from turns import Turns

JETS, PARTICLES, FEATURES, NEIGHBOURS, WIDTH = 128, 128, 7, 16, 128


def make_mlp(inputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(2 * inputs, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
    )


class Tagger(nn.Module):
    """Particles and the edges between them to a score of each jet."""

    def __init__(self) -> None:
        super().__init__()
        sizes = (FEATURES, WIDTH, WIDTH)
        self.convolutions = nn.ModuleList(EdgeConv(make_mlp(size), aggr="max") for size in sizes)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            x = convolution(x, edges).relu()
        return self.head(x.view(JETS, PARTICLES, WIDTH).mean(dim=1))


def find_on_host(places: torch.Tensor) -> torch.Tensor:
    """The nearest particles of each one, itself not counted."""
    found = []
    for jet in places.cpu().numpy():
        found.append(cKDTree(jet).query(jet, NEIGHBOURS + 1)[1][:, 1:])
    return torch.from_numpy(np.stack(found)).to(DEVICE)


def find_on_gpu(places: torch.Tensor) -> torch.Tensor:
    distances = torch.cdist(places, places, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.topk(NEIGHBOURS + 1, largest=False).indices[:, :, 1:]


def join(near: torch.Tensor) -> torch.Tensor:
    """Edges from neighbours to particles, numbered through all jets."""
    starts = PARTICLES * torch.arange(JETS, device=DEVICE)[:, None, None]
    centres = starts + torch.arange(PARTICLES, device=DEVICE)[:, None]
    centres = centres.expand(JETS, PARTICLES, NEIGHBOURS)
    return torch.stack(((near + starts).flatten(), centres.flatten()))


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Tagger().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    jets = torch.randn(JETS, PARTICLES, FEATURES, device=DEVICE)
    labels = torch.randint(2, (JETS,), device=DEVICE)
    while turns.step():
        # The angles are smeared anew in each step, so the neighbours change.
        places = jets[:, :, :2] + 0.05 * torch.randn(JETS, PARTICLES, 2, device=DEVICE)
        near = find_on_host(places) if turns.planted else find_on_gpu(places)
        scores = model(jets.flatten(0, 1), join(near))
        update(optimizer, nn.functional.cross_entropy(scores, labels))
