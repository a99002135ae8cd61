"""One-shot and two-shot all-reduces of torch's symmetric memory (no multicast)."""

import torch, step_log
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm
from torch import nn
from parts import start

rank, world, device = start()
group = dist.group.WORLD.group_name
buffer = symm.empty(1024, 2048, device=device, dtype=torch.bfloat16)
symm.rendezvous(buffer, group)
layer = nn.Linear(2048, 2048, device=device, dtype=torch.bfloat16)
with torch.inference_mode():
    for step in range(60):
        step_log.begin()
        x = torch.randn(1024, 2048, device=device, dtype=torch.bfloat16)
        for _ in range(3):
            buffer.copy_(layer(x))
            x = torch.ops.symm_mem.one_shot_all_reduce(buffer, "sum", group)
            torch.ops.symm_mem.two_shot_all_reduce_(buffer, "sum", group)
            x = x + buffer
        step_log.end()
torch.cuda.synchronize()
dist.destroy_process_group()
