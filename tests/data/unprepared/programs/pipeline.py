"""A pipeline of two stages (GPipe, four microbatches); the first has three times the layers."""

import torch, step_log
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from parts import Block, start

rank, world, device = start()
layers = [3, 1][rank] if world == 2 else [2, 2, 4, 2][rank]
stage_module = nn.Sequential(*(Block(1024) for _ in range(layers))).to(device)
stage = PipelineStage(stage_module, rank, world, device)
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=lambda y, t: ((y - t) ** 2).mean())
optimizer = torch.optim.AdamW(stage_module.parameters(), lr=1e-4)
for step in range(14):
    step_log.begin()
    x = torch.randn(16, 1024, 1024, device=device)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        if rank == 0:
            schedule.step(x)
        elif rank == world - 1:
            schedule.step(target=torch.zeros_like(x))
        else:
            schedule.step()
    optimizer.step()
    optimizer.zero_grad()
    step_log.end()
torch.cuda.synchronize()
torch.distributed.destroy_process_group()
