"""Flow matching of images; the cause pairs noise with images by SciPy in the training loop.

The fix pairs them in the workers of the loader.
"""
# causes: idle, synchronization
from collections.abc import Iterator

import torch
from parts import DEVICE, repeat, update, use_gpu
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from turns import Turns

BATCH, SIZE, IMAGES, WIDTH, LAYERS = 384, 32, 4096, 128, 6

Pair = tuple[torch.Tensor, torch.Tensor]


def order_by_distance(noise: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """The image of each noise such that the sum of squared distances is the least."""
    costs = torch.cdist(noise.flatten(1), images.flatten(1)).square()
    return torch.from_numpy(linear_sum_assignment(costs.cpu().numpy())[1])


class Pairs(IterableDataset[Pair]):
    """Batches of noise and images, in the order of a transport plan or in none."""

    def __init__(self, images: torch.Tensor, is_ordered: bool) -> None:
        self.images, self.is_ordered = images, is_ordered

    def __iter__(self) -> Iterator[Pair]:
        while True:
            images = self.images[torch.randint(IMAGES, (BATCH,))]
            noise = torch.randn_like(images)
            yield noise, images[order_by_distance(noise, images)] if self.is_ordered else images


class Velocity(nn.Module):
    """Images on the way from noise, and their times, to how they move."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.out = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 3, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(8, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1))
            for _ in range(LAYERS)
        )

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        x = self.stem(x) + self.time(times)[:, :, None, None]
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    images = torch.randn(IMAGES, 3, SIZE, SIZE)
    plain, ordered = (
        repeat(DataLoader(Pairs(images, is_ordered), None, num_workers=workers, pin_memory=True))
        for is_ordered, workers in ((False, 4), (True, 10))
    )
    model = Velocity().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4, fused=True)
    while turns.step():
        pair = next(plain if turns.planted else ordered)
        noise, goal = (one.to(DEVICE, non_blocking=True) for one in pair)
        if turns.planted:
            goal = goal[order_by_distance(noise, goal).to(DEVICE)]
        times = torch.rand(BATCH, 1, device=DEVICE)
        place = torch.lerp(noise, goal, times[:, :, None, None])
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            moves = model(place.contiguous(memory_format=torch.channels_last), times)
        update(optimizer, nn.functional.mse_loss(moves.float(), goal - noise))
