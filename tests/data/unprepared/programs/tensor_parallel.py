"""Tensor parallelism by DTensor plans over MLPs."""

import torch, step_log
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from parts import start

rank, world, device = start()
mesh = init_device_mesh("cuda", (world,))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


model = nn.Sequential(*(Mlp(4096) for _ in range(4))).to(device)
for block in model:
    parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=False)
torch.manual_seed(0)
for step in range(18):
    step_log.begin()
    x = torch.randn(4096, 4096, device=device)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    step_log.end()
torch.cuda.synchronize()
torch.distributed.destroy_process_group()
