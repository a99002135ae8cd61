"""Statues scanned as points, compressed by a FoldingNet; the cause takes all differences of points.

The fix finds the squared distances by a product of matrices: x^2 + y^2 - 2xy.
"""

# causes: unfused_elementwise
import itertools

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, POINTS, CODE, SIDE = 16, 2048, 512, 45


def connect(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Folding(nn.Module):
    """A cloud of points to a code, by which a square is folded twice."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.code = connect(3, 128, 256, 1024), connect(1024, 1024, CODE)
        self.first, self.second = connect(CODE + 8, 512, 512, 3), connect(CODE + 8, 512, 512, 3)
        line = torch.linspace(-1, 1, SIDE)
        self.register_buffer("square", torch.cartesian_prod(line, line))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        code = self.code(self.encoder(points).amax(1))
        code = code[:, None].expand(-1, SIDE * SIDE, -1)
        square = self.square.expand(len(points), -1, -1)
        folded = self.first(torch.cat([code, nn.functional.pad(square, (0, 6))], 2))
        return self.second(torch.cat([code, nn.functional.pad(folded, (0, 5))], 2))


def measure_by_differences(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """The squared distance of each two points."""
    return (first[:, :, None] - second[:, None]).pow(2).sum(-1)


def measure_by_product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    squares = first.square().sum(2)[:, :, None] + second.square().sum(2)[:, None]
    return torch.baddbmm(squares, first, second.transpose(1, 2), alpha=-2).clamp(min=0)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Folding().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    points = nn.functional.normalize(torch.randn(BATCH, POINTS, 3, device=DEVICE), dim=2)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            made = model(points)
        measure = measure_by_differences if turns.planted else measure_by_product
        distances = measure(made.float(), points)
        loss = distances.amin(1).mean() + distances.amin(2).mean()
        update(optimizer, loss)
