"""Molecules moved by a network (SchNet), launched from Python; the fix replays a CUDA graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

MOLECULES, ATOMS, WIDTH, SHAPES, LAYERS, MOVES, PACE = 16, 21, 128, 32, 5, 3, 1e-3
REACH = 5.0


def shift(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.softplus(x) - 0.6931


class Interaction(nn.Module):
    """What atoms tell each other, filtered by their distances."""

    def __init__(self) -> None:
        super().__init__()
        self.filter1, self.filter2 = nn.Linear(SHAPES, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.before = nn.Linear(WIDTH, WIDTH, bias=False)
        self.after1, self.after2 = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, shapes: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
        filters = self.filter2(shift(self.filter1(shapes))) * near
        told = (self.before(x)[:, None] * filters).sum(2)
        return x + self.after2(shift(self.after1(told)))


class Energy(nn.Module):
    """The energy of all molecules, by the places of their atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(10, WIDTH)
        self.layers = nn.ModuleList(Interaction() for _ in range(LAYERS))
        self.head1, self.head2 = nn.Linear(WIDTH, WIDTH // 2), nn.Linear(WIDTH // 2, 1)
        self.register_buffer("centres", torch.linspace(0, REACH, SHAPES))
        self.register_buffer("self_far", torch.eye(ATOMS)[..., None] * 100)

    def forward(self, places: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        away = places[:, :, None] - places[:, None]
        distance = (away.square().sum(-1, keepdim=True) + self.self_far).sqrt()
        shapes = torch.exp(-10 * (distance - self.centres).square())
        near = 0.5 * (torch.cos(distance * torch.pi / REACH) + 1) * (distance < REACH)
        x = self.kinds(kinds)
        for layer in self.layers:
            x = layer(x, shapes, near)
        return self.head2(shift(self.head1(x))).sum()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Energy().to(DEVICE).requires_grad_(False)
    kinds = torch.randint(10, (MOLECULES, ATOMS), device=DEVICE)
    places = 3 * torch.rand(MOLECULES, ATOMS, 3, device=DEVICE)
    speeds, forces = torch.zeros_like(places), torch.zeros_like(places)

    def move() -> None:
        for _ in range(MOVES):
            speeds.add_(forces, alpha=PACE / 2)
            places.add_(speeds, alpha=PACE)
            now = places.detach().requires_grad_()
            forces.copy_(-torch.autograd.grad(model(now, kinds), now)[0])
            speeds.add_(forces, alpha=PACE / 2)

    run_eager_or_graph(turns, move)
