"""Demand for power forecast by a transformer of patches (nn.TransformerEncoder), fp32 products.

The fix is TF32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

SERIES, LENGTH, PATCH, WIDTH, HEADS, LAYERS, AHEAD, STORED = 512, 512, 16, 512, 8, 6, 96, 16


class Forecast(nn.Module):
    """Patches of each series to its next values."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(PATCH, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH // PATCH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(LENGTH // PATCH * WIDTH, AHEAD)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        mean, spread = series.mean(1, keepdim=True), series.std(1, keepdim=True)
        patches = ((series - mean) / spread).unflatten(1, (-1, PATCH))
        x = self.encoder(self.first(patches) + self.places)
        return self.head(x.flatten(1)) * spread + mean


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Forecast().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    walks = torch.randn(STORED, SERIES, LENGTH + AHEAD, device=DEVICE).cumsum(-1)
    steps = 0
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        past, future = walks[steps % STORED].split([LENGTH, AHEAD], 1)
        steps += 1
        update(optimizer, nn.functional.mse_loss(model(past), future))
