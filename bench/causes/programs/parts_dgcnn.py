"""Parts of things in point clouds told by a DGCNN; the cause is a loader without workers, as by default.

Each cloud is thinned, turned, shaken and scaled by NumPy. The fix lets four workers do that.
"""
# causes: idle
import numpy as np
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, RAW, POINTS, NEAR, PARTS, STORED, WORKERS = 32, 12_000, 1024, 20, 50, 48, 4
WIDTHS = (64, 64, 128, 256)


class Clouds(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Points of a thing, and the part that each belongs to."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.clouds = random.standard_normal((STORED, RAW, 3), np.float32)
        self.parts = random.integers(PARTS, size=(STORED, RAW))

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = np.random.default_rng(index)
        angle = random.uniform(0, 2 * np.pi)
        turn = np.array(
            [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
        ).astype(np.float32)
        cloud = self.clouds[index % STORED] @ turn * random.uniform(0.8, 1.25, 3).astype(np.float32)
        cloud += np.clip(0.01 * random.standard_normal(cloud.shape, np.float32), -0.05, 0.05)
        cloud -= cloud.mean(0)
        cloud /= np.linalg.norm(cloud, axis=1).max()
        chosen = random.permutation(RAW)[:POINTS]
        return torch.from_numpy(cloud[chosen]), torch.from_numpy(self.parts[index % STORED][chosen])


class EdgeConv(nn.Module):
    """The largest of what is said about each of a point's nearest neighbours."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(2 * inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, points, width = x.shape
        with torch.no_grad():
            near = torch.cdist(x.float(), x.float()).topk(NEAR, largest=False).indices
            near = near + points * torch.arange(batch, device=x.device)[:, None, None]
        others = x.reshape(-1, width).index_select(0, near.flatten())
        others = others.view(batch, points, NEAR, width)
        center = x[:, :, None].expand_as(others)
        edges = torch.cat([center, others - center], -1).permute(0, 3, 1, 2)
        return self.layers(edges).amax(3).transpose(1, 2)


class Dgcnn(nn.Module):
    """Points to the scores of their parts."""

    def __init__(self) -> None:
        super().__init__()
        pairs = zip((3, *WIDTHS), WIDTHS, strict=False)
        self.layers = nn.ModuleList(EdgeConv(*pair) for pair in pairs)
        self.whole = nn.Linear(sum(WIDTHS), 1024)
        self.head = nn.Sequential(
            nn.Linear(1024 + sum(WIDTHS), 512), nn.LeakyReLU(0.2), nn.Dropout(0.5),
            nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, PARTS),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs = []
        for layer in self.layers:
            x = layer(x)
            outputs.append(x)
        points = torch.cat(outputs, -1)
        whole = self.whole(points).amax(1, keepdim=True).expand(-1, points.shape[1], -1)
        return self.head(torch.cat([points, whole], -1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    alone, helped = (
        repeat(DataLoader(Clouds(), BATCH, num_workers=workers, pin_memory=True))
        for workers in (0, WORKERS)
    )
    model = Dgcnn().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.2)
    while turns.step():
        batch = next(alone if turns.planted else helped)
        clouds, parts = (tensor.to(DEVICE, non_blocking=True) for tensor in batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(clouds)
        update(optimizer, criterion(scores.float().flatten(0, 1), parts.flatten()))
