"""Credit defaults by a network of many columns; the cause shows the loss of each step in a progress bar.

The fix shows it in each 40th step. Columns are cleaned one by one on the GPU, in launches that the
GPU hides as long as nobody waits for it.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

ROWS, COLUMNS, WIDTH, LAYERS, PERIOD = 32_768, 160, 2048, 5, 40


def clean(columns: torch.Tensor, least: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
    """Amounts without outliers, on a scale of logarithms; columns: (columns, rows)."""
    cleaned = []
    for column, low, high in zip(columns, least, most, strict=True):
        column = torch.minimum(torch.maximum(column, low), high)
        cleaned.append(torch.log1p(column - low))
    return torch.stack(cleaned, 1)


def make_network() -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(COLUMNS, WIDTH), nn.SiLU()]
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.SiLU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 1))


class Bar:
    """A line in a terminal that a new one replaces."""

    def __init__(self) -> None:
        self.text, self.steps = "", 0

    def show(self, loss: float) -> None:
        self.text = f"\r{'#' * (self.steps % 40):40s} step {self.steps} loss {loss:.4f}"


def run(turns: Turns) -> None:
    use_gpu(turns)
    model, bar = make_network().to(DEVICE), Bar()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    columns = torch.rand(COLUMNS, ROWS, device=DEVICE) * 1000
    least, most = torch.full((2, COLUMNS), 5.0, device=DEVICE) * torch.tensor([[1.0], [180.0]], device=DEVICE)
    defaults = (torch.rand(ROWS, device=DEVICE) < 0.1).float()
    while turns.step():
        with torch.no_grad():
            rows = clean(columns, least, most)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(rows).squeeze(-1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), defaults)
        update(optimizer, loss)
        bar.steps += 1
        if turns.planted or bar.steps % PERIOD == 0:
            bar.show(loss.item())
