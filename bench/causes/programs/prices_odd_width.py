"""Prices of houses by an MLP in bf16; the cause is layers of 4,001 units, the fix has 4,008."""
# causes: unaligned_matmul
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, FEATURES, LAYERS, ODD, FILLED = 8192, 256, 6, 4_001, 4_008


def make_model(width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(FEATURES, width), nn.GELU()]
    for _ in range(LAYERS - 1):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to(DEVICE)


def run(turns: Turns) -> None:
    use_gpu(turns)
    models = [make_model(width) for width in (FILLED, ODD)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True) for model in models]
    houses = torch.rand(BATCH, FEATURES, device=DEVICE)
    prices = torch.rand(BATCH, 1, device=DEVICE)
    while turns.step():
        chosen = int(turns.planted)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            told = models[chosen](houses)
        update(optimizers[chosen], nn.functional.mse_loss(told.float(), prices))
