"""Many small layers: the host is the limit. One GPU."""

import torch, watch
from torch import nn

rank, world, device = watch.start()
layers = [m for _ in range(4 if watch.SMALL else 60) for m in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
model = watch.model(nn.Sequential(*layers).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(watch.STEPS):
    loss = model(torch.ones(32, 64, device=device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.step(loss)
