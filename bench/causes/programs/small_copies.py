"""A graph network's training; the cause copies each small feature to the GPU by itself."""
# causes: synchronization, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = nn.Sequential(
        nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1)
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    features = [torch.rand(512) for _ in range(2000)]
    context = torch.rand(8192, 512, device=DEVICE)
    while turns.step():
        if turns.planted:
            batch = torch.stack([feature.to(DEVICE) for feature in features])
        else:
            batch = torch.stack(features).pin_memory().to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(torch.cat([batch, context])).square().mean()
        update(optimizer, loss)
