"""Flow through porous ground learned by a DeepONet; the cause is fp32 without TF32 in its matrix products.

A ResNet-34 (torchvision) reads the ground, and an MLP the points that are asked. The fix is
`torch.set_float32_matmul_precision("high")`.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torchvision.models import resnet34
from turns import Turns

GROUNDS, SIDE, POINTS, WIDTH, LAYERS, BASIS = 32, 192, 16_384, 1024, 7, 512


class Trunk(nn.Sequential):
    """Points and times to the values of basis functions."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [nn.Linear(3, WIDTH), nn.SiLU()]
        for _ in range(LAYERS):
            layers += [nn.Linear(WIDTH, WIDTH), nn.SiLU()]
        super().__init__(*layers, nn.Linear(WIDTH, BASIS))


class DeepONet(nn.Module):
    """The ground and points in it to the pressure there."""

    def __init__(self) -> None:
        super().__init__()
        self.branch, self.trunk = resnet34(num_classes=BASIS), Trunk()
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, grounds: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return self.branch(grounds) @ self.trunk(points).T + self.bias


def draw_grounds(count: int) -> torch.Tensor:
    """Permeability, sources and borders: smooth random fields."""
    coarse = torch.randn(count, 3, SIDE // 16, SIDE // 16, device=DEVICE)
    return nn.functional.interpolate(coarse, size=(SIDE, SIDE), mode="bicubic")


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = DeepONet().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100_000)
    grounds = draw_grounds(4 * GROUNDS)
    pressures = torch.randn(4 * GROUNDS, POINTS, device=DEVICE)
    step = 0
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        part = slice(step % 4 * GROUNDS, (step % 4 + 1) * GROUNDS)
        step += 1
        points = torch.rand(POINTS, 3, device=DEVICE)
        guess, wanted = model(grounds[part], points), pressures[part]
        loss = ((guess - wanted).norm(dim=1) / wanted.norm(dim=1)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
