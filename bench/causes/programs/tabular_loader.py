"""A network of tables; the cause is a loader that takes rows one by one in the main process."""
# causes: idle
import torch
from parts import DEVICE, repeat, update, use_gpu
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from turns import Turns

ROWS, COLUMNS, BATCH, WIDTH = 500_000, 100, 4096, 2048


def run(turns: Turns) -> None:
    use_gpu(turns)
    table, target = torch.randn(ROWS, COLUMNS), torch.randn(ROWS)
    loader = DataLoader(TensorDataset(table, target), BATCH, shuffle=True, pin_memory=True)
    batches = repeat(loader)
    layers = [nn.Linear(COLUMNS, WIDTH), nn.GELU()]
    for _ in range(12):
        layers += [nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Dropout(0.1)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    all_rows, all_targets = table.to(DEVICE), target.to(DEVICE)
    while turns.step():
        if turns.planted:
            rows, wanted = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        else:
            chosen = torch.randint(ROWS, (BATCH,), device=DEVICE)
            rows, wanted = all_rows[chosen], all_targets[chosen]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            predicted = model(rows).squeeze(1)
        update(optimizer, nn.functional.mse_loss(predicted.float(), wanted))
