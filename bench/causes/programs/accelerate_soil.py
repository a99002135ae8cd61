"""Nutrients of soil told from its infrared spectra, with Accelerate; the cause copies rows of a table from pageable memory.

The whole table lies in the host's memory, and a batch is some rows of it. The fix pins the table
once, and does not wait for its copies.
"""

# causes: pageable_copy
import numpy as np
import torch
from accelerate import Accelerator
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

ROWS, BATCH, COLUMNS, NUTRIENTS, WIDTH, LAYERS = 49_152, 8192, 2560, 10, 2048, 8


class Residual(nn.Module):
    """A network with one hidden layer, added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.narrow(self.wide(self.norm(x)).relu())


def make_model() -> nn.Module:
    """A spectrum to the amount of each nutrient."""
    layers = (Residual() for _ in range(LAYERS))
    return nn.Sequential(nn.Linear(COLUMNS, WIDTH), *layers, nn.Linear(WIDTH, NUTRIENTS))


def draw_spectra() -> torch.Tensor:
    """Smooth curves of each sample of soil."""
    random = np.random.default_rng(0)
    parts = random.standard_normal((ROWS, 12), np.float32)
    curves = np.cos(np.outer(np.arange(12), np.linspace(0, 3, COLUMNS))).astype(np.float32)
    return torch.from_numpy(parts @ curves)


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = make_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    table = draw_spectra()
    pinned = table.pin_memory()
    nutrients = torch.rand(BATCH, NUTRIENTS, device=DEVICE)
    steps = 0
    while turns.step():
        first = steps * BATCH % ROWS
        steps += 1
        rows = (table if turns.planted else pinned)[first : first + BATCH]
        found = model(rows.to(accelerator.device, non_blocking=not turns.planted))
        loss = nn.functional.mse_loss(found.float(), nutrients)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
