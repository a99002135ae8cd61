"""Cars found in scans of a lidar (as PointPillars); the cause sorts points into pillars in the main process.

The loader has no workers, as by default. The fix gives it eight.
"""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

SCANS, BATCH, POINTS, CELLS, PILLARS, DEPTH = 12, 6, 30_000, 320, 8_000, 16
EXTENT, WIDTH = 51.2, 64

Sample = tuple[np.ndarray, np.ndarray]


def make_pillars(points: np.ndarray) -> Sample:
    """At most DEPTH points of each of at most PILLARS cells, zeros elsewhere, and their cells."""
    points = points[(np.abs(points[:, :2]) < EXTENT).all(1)]
    places = ((points[:, :2] + EXTENT) * (CELLS / (2 * EXTENT))).astype(np.int64)
    cells = places[:, 0] * CELLS + places[:, 1]
    order = np.argsort(cells, kind="stable")
    points, cells = points[order], cells[order]
    used, first, counts = np.unique(cells, return_index=True, return_counts=True)
    pillar = np.repeat(np.arange(len(used)), counts)
    rank = np.arange(len(cells)) - np.repeat(first, counts)
    kept = (rank < DEPTH) & (pillar < PILLARS)
    pillars = np.zeros((PILLARS, DEPTH, 4), np.float32)
    pillars[pillar[kept], rank[kept]] = points[kept]
    where = np.full(PILLARS, CELLS * CELLS, np.int64)
    where[: len(used)] = used[:PILLARS]
    return pillars, where


class Scans(Dataset[Sample]):
    """Points around a car, turned by chance, more of them near to it."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.scans = random.standard_normal((SCANS, POINTS, 4)).astype(np.float32)
        self.scans[..., :2] *= 16

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Sample:
        random = np.random.default_rng(index)
        angle = random.uniform(-0.8, 0.8)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        points = self.scans[index % SCANS].copy()
        points[:, :2] = points[:, :2] @ turn.T.astype(np.float32)
        points[:, :3] *= random.uniform(0.95, 1.05)
        return make_pillars(points)


def make_level(inputs: int, width: int, layers: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for layer in range(layers):
        parts += [
            nn.Conv2d(inputs if layer == 0 else width, width, 3, 2 if layer == 0 else 1, 1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(),
        ]  # fmt: skip
    return nn.Sequential(*parts)


class PointPillars(nn.Module):
    """Features of pillars, laid on a map, and convolutions of three sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Linear(7, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU())
        self.levels = nn.ModuleList(
            [make_level(WIDTH, 192, 5), make_level(192, 320, 6), make_level(320, 448, 6)]
        )
        self.ups = nn.ModuleList(
            nn.ConvTranspose2d(width, 128, scale, scale) for width, scale in ((192, 1), (320, 2), (448, 4))
        )
        self.head = nn.Conv2d(3 * 128, 8, 1)

    def forward(self, pillars: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        offset = pillars[..., :3] - pillars[..., :3].mean(2, keepdim=True)
        features = self.points(torch.cat([pillars, offset], -1)).amax(2).transpose(1, 2)
        canvas = features.new_zeros(len(pillars), WIDTH, CELLS * CELLS + 1)
        index = where[:, None].expand(-1, WIDTH, -1)
        canvas = canvas.scatter(2, index, features)[..., :-1]
        x = canvas.reshape(len(pillars), WIDTH, CELLS, CELLS)
        x = x.contiguous(memory_format=torch.channels_last)
        found = []
        for level, up in zip(self.levels, self.ups):
            x = level(x)
            found.append(up(x))
        return self.head(torch.cat(found, 1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    alone, helped = (
        repeat(DataLoader(Scans(), BATCH, num_workers=workers, pin_memory=True)) for workers in (0, 8)
    )
    model = PointPillars().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    side = CELLS // 2
    cars = (torch.rand(BATCH, side, side, device=DEVICE) < 0.01).float()
    boxes = torch.randn(BATCH, 7, side, side, device=DEVICE)
    while turns.step():
        pillars, where = next(alone if turns.planted else helped)
        pillars = pillars.to(DEVICE, non_blocking=True)
        where = where.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = model(pillars, where)
        found = found.float()
        loss = nn.functional.binary_cross_entropy_with_logits(found[:, 0], cars)
        errors = nn.functional.smooth_l1_loss(found[:, 1:], boxes, reduction="none")
        loss = loss + (errors * cars[:, None]).mean()
        update(optimizer, loss)
