"""PointNet on point clouds; the cause picks the points of each class by a mask."""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

CLOUDS, POINTS, CLASSES = 32, 4096, 50


def make_layers(*widths: int) -> nn.Sequential:
    """Layers that all points share."""
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    """Points of shape (clouds x points, 3) to the scores of each point's class."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.deep = make_layers(3, 64, 128), make_layers(128, 512, 1024)
        self.head = nn.Sequential(make_layers(128 + 1024, 512, 256), nn.Linear(256, CLASSES))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        near = self.near(points)
        cloud = self.deep(near).view(CLOUDS, POINTS, -1).amax(1, keepdim=True)
        everywhere = cloud.expand(-1, POINTS, -1).flatten(0, 1)
        return self.head(torch.cat([near, everywhere], 1))


def rate(chosen: torch.Tensor, labels: torch.Tensor, is_masked: bool) -> torch.Tensor:
    """The part of each class's points that have the right label."""
    rates = []
    for number in range(CLASSES):
        if is_masked:
            rates.append((chosen[labels == number] == number).float().mean())
        else:
            members = labels == number
            rates.append(((chosen == number) & members).sum() / members.sum())
    return torch.stack(rates)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = PointNet().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    points = torch.randn(CLOUDS * POINTS, 3, device=DEVICE)
    labels = torch.randint(CLASSES, (CLOUDS * POINTS,), device=DEVICE)
    rates = torch.zeros(CLASSES, device=DEVICE)
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(points)
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))
        rates.lerp_(rate(scores.detach().argmax(-1), labels, turns.planted), 0.1)
