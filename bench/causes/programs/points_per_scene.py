"""A network of point clouds; the cause calls it for one scene after the other, not for all points."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

SCENES, WIDTH, CLASSES = 24, 256, 40


class PointNet(nn.Module):
    """Layers of each point, their greatest values in a scene, and a class of the scene."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(
            nn.Linear(3, 64), nn.LayerNorm(64), nn.ReLU(),
            nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(),
            nn.Linear(128, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, CLASSES))

    def forward(self, points: torch.Tensor, scene: torch.Tensor, count: int) -> torch.Tensor:
        x = self.points(points)
        index = scene.unsqueeze(1).expand_as(x)
        greatest = x.new_zeros(count, WIDTH).scatter_reduce(0, index, x, "amax")
        return self.head(greatest)


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    sizes = torch.randint(2048, 16384, (SCENES,)).tolist()
    clouds = [torch.randn(size, 3, device=DEVICE) for size in sizes]
    zeros = [torch.zeros(size, dtype=torch.long, device=DEVICE) for size in sizes]
    scene = torch.cat([one + number for number, one in enumerate(zeros)])
    labels = torch.randint(CLASSES, (SCENES,), device=DEVICE)
    model = PointNet().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        if turns.planted:
            pairs = zip(clouds, zeros, strict=True)
            scores = torch.cat([model(cloud, zero, 1) for cloud, zero in pairs])
        else:
            scores = model(torch.cat(clouds), scene, SCENES)
        update(optimizer, nn.functional.cross_entropy(scores, labels))
