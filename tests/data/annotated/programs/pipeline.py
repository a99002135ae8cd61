"""A pipeline of two stages (GPipe, four microbatches)."""

import torch, watch
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from parts import Block

rank, world, device = watch.start()
wide, rows, length = (64, 8, 32) if watch.SMALL else (2048, 16, 512)
stage_module = nn.Sequential(*(Block(wide) for _ in range([3, 2][rank]))).to(device)
watch.model(stage_module)
stage = PipelineStage(stage_module, rank, world, device)
schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=lambda y, t: ((y - t) ** 2).mean())
optimizer = torch.optim.AdamW(stage_module.parameters(), lr=1e-4)
for step in range(watch.STEPS):
    x = torch.randn(rows, length, wide, device=device)
    losses = []
    with watch.autocast(device):
        if rank == 0:
            schedule.step(x)
        else:
            schedule.step(target=torch.zeros_like(x), losses=losses)
    optimizer.step()
    optimizer.zero_grad()
    watch.step(torch.stack([each.detach() for each in losses]).sum() if losses else None)
torch.distributed.destroy_process_group()
