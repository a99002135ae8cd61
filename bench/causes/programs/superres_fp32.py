"""A network that enlarges images, in fp32; the cause keeps its convolutions off the tensor cores."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, BLOCKS = 8, 96, 128, 12


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.1 * self.second(nn.functional.relu(self.first(x)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = nn.Sequential(
        nn.Conv2d(3, WIDTH, 3, padding=1),
        *(Residual() for _ in range(BLOCKS)),
        nn.Conv2d(WIDTH, 4 * 3, 3, padding=1),
        nn.PixelShuffle(2),
    ).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    small = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    large = torch.rand(BATCH, 3, 2 * SIZE, 2 * SIZE, device=DEVICE)
    while turns.step():
        torch.backends.cudnn.allow_tf32 = not turns.planted
        update(optimizer, nn.functional.l1_loss(model(small), large))
