"""Expert parallelism by all-to-all: a fifth of the tokens goes to the expert of rank 0."""

import torch, step_log
import torch.distributed as dist
import torch.distributed.nn.functional as dnn
from torch import nn
from parts import Block, start

rank, world, device = start()


class Experts(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 8 * width), nn.Linear(8 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        first = len(flat) // 5
        rest = len(flat) - first
        share = [first, *[rest // (world - 1)] * (world - 1)]
        share[-1] += len(flat) - sum(share)
        here = [share[rank]] * world
        inbox = torch.empty(sum(here), flat.shape[1], device=device, dtype=flat.dtype)
        inbox = dnn.all_to_all_single(inbox, flat, here, share)
        done = self.down(nn.functional.gelu(self.up(inbox)))
        back = torch.empty(len(flat), flat.shape[1], device=device, dtype=done.dtype)
        return x + dnn.all_to_all_single(back, done, share, here).view_as(x)


torch.manual_seed(0)
model = (
    nn.Sequential(*(layer for _ in range(2) for layer in (Block(1024), Experts(1024))))
    .to(device)
    .bfloat16()
)
dense = [p for m in model if isinstance(m, Block) for p in m.parameters()]
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(20):
    step_log.begin()
    x = torch.randn(16, 512, 1024, device=device, dtype=torch.bfloat16)
    model(x).float().pow(2).mean().backward()
    for p in dense:
        dist.all_reduce(p.grad)
    optimizer.step()
    optimizer.zero_grad()
    step_log.end()
torch.cuda.synchronize()
dist.destroy_process_group()
