"""Objects found by deformable attention; the cause checks the sizes of levels in each layer.

The check reads a number from the GPU, as published code does. The fix checks once, on the host.
"""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, WIDTH, HEADS, POINTS, LAYERS, CLASSES = 1, 256, 8, 4, 12, 91
SIZES = ((72, 72), (36, 36), (18, 18), (9, 9))
LENGTH = sum(height * width for height, width in SIZES)


class Deformable(nn.Module):
    """Attention to a few points of each level."""

    def __init__(self) -> None:
        super().__init__()
        count = HEADS * len(SIZES) * POINTS
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.moves, self.weights = nn.Linear(WIDTH, 2 * count), nn.Linear(WIDTH, count)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, sizes: torch.Tensor, planted: bool
    ) -> torch.Tensor:
        batch, length, _ = x.shape
        if planted:
            assert (sizes[:, 0] * sizes[:, 1]).sum() == length, "levels do not fit"
        values = self.value(x).view(batch, length, HEADS, -1)
        moves = self.moves(x).view(batch, length, HEADS, len(SIZES), POINTS, 2)
        weights = self.weights(x).view(batch, length, HEADS, -1).softmax(-1)
        grid = 2 * (places[:, None, None, None] + moves / sizes.flip(-1)[:, None]) - 1
        found = []
        start = 0
        for level, (height, width) in enumerate(SIZES):
            end = start + height * width
            image = values[:, start:end].permute(0, 2, 3, 1)
            image = image.reshape(batch * HEADS, -1, height, width)
            points = grid[:, :, :, level].transpose(1, 2).flatten(0, 1)
            found.append(nn.functional.grid_sample(image, points, align_corners=False))
            start = end
        mix = weights.transpose(1, 2).reshape(batch * HEADS, 1, length, -1)
        mixed = (torch.cat(found, -1) * mix).sum(-1).view(batch, WIDTH, length)
        return self.out(mixed.transpose(1, 2))


class Layer(nn.Module):
    """Deformable attention and a network."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Deformable()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, sizes: torch.Tensor, planted: bool
    ) -> torch.Tensor:
        x = self.norm1(x + self.attention(x, places, sizes, planted))
        return self.norm2(x + self.mlp(x))


def make_places() -> torch.Tensor:
    """The middle of each position, as parts of its level."""
    grids = []
    for height, width in SIZES:
        rows, columns = torch.arange(height) + 0.5, torch.arange(width) + 0.5
        row, column = torch.meshgrid(rows / height, columns / width, indexing="ij")
        grids.append(torch.stack([column, row], -1).flatten(0, 1))
    return torch.cat(grids).to(DEVICE)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).to(DEVICE)
    head = nn.Linear(WIDTH, CLASSES).to(DEVICE)
    places, sizes = make_places(), torch.tensor(SIZES, device=DEVICE)
    features = torch.randn(8, BATCH, LENGTH, WIDTH, device=DEVICE)
    best = torch.zeros(BATCH, CLASSES, device=DEVICE)
    steps = 0
    while turns.step():
        x = features[steps % 8]
        steps += 1
        for layer in layers:
            x = layer(x, places, sizes, turns.planted)
        best += head(x).sigmoid().amax(1)
