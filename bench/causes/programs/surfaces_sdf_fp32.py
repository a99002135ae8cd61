"""A surface from the points of a scan: a network of signed distances whose slope is one everywhere (as IGR).

The cause is PyTorch's default, fp32 without TF32 in matrix products; the fix is
`torch.set_float32_matmul_precision("high")`. The slope's loss makes a second backward pass.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

POINTS, NEAR, WIDTH, LAYERS, SKIP = 400_000, 24_576, 512, 8, 4


class Distance(nn.Module):
    """Points to their signed distance; the fourth layer sees the points again."""

    def __init__(self) -> None:
        super().__init__()
        layers = []
        for number in range(LAYERS):
            inputs = 3 if number == 0 else WIDTH
            outputs = WIDTH - 3 if number + 1 == SKIP else WIDTH
            layers.append(nn.Linear(inputs, outputs))
        self.layers, self.last = nn.ModuleList(layers), nn.Linear(WIDTH, 1)
        self.softplus = nn.Softplus(beta=100)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        x = points
        for number, layer in enumerate(self.layers):
            if number == SKIP:
                x = torch.cat([x, points], 1) / 2**0.5
            x = self.softplus(layer(x))
        return self.last(x)


class Scan:
    """Points of a surface with normals; a sphere with dents stands for it."""

    def __init__(self) -> None:
        normals = nn.functional.normalize(torch.randn(POINTS, 3, device=DEVICE))
        self.points = normals * (0.7 + 0.05 * torch.sin(9 * normals).prod(1, keepdim=True))
        self.normals = normals

    def draw(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Points of the surface, their normals, and as many points around it."""
        rows = torch.randint(POINTS, (NEAR,), device=DEVICE)
        points, normals = self.points[rows], self.normals[rows]
        wide = torch.rand(NEAR // 8, 3, device=DEVICE) * 2 - 1
        close = points[NEAR // 8 :] + 0.1 * torch.randn(NEAR - NEAR // 8, 3, device=DEVICE)
        return points, normals, torch.cat([wide, close])


def find_loss(
    model: nn.Module, points: torch.Tensor, normals: torch.Tensor, around: torch.Tensor
) -> torch.Tensor:
    places = torch.cat([points, around]).requires_grad_()
    distances = model(places)
    slopes = torch.autograd.grad(distances.sum(), places, create_graph=True)[0]
    surface = distances[:NEAR].abs().mean()
    turned = (slopes[:NEAR] - normals).norm(dim=1).mean()
    eikonal = (slopes[NEAR:].norm(dim=1) - 1).square().mean()
    return surface + turned + 0.1 * eikonal


def run(turns: Turns) -> None:
    use_gpu(turns)
    scan, model = Scan(), Distance().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        update(optimizer, find_loss(model, *scan.draw()))
