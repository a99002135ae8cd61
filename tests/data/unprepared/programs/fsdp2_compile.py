"""FSDP2 over compiled blocks."""

import torch, step_log
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
from parts import Decoder, loss_of, start

rank, world, device = start()
model = Decoder(3, 2048).to(device)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
for block in model.blocks:
    block.compile()
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
for step in range(22):
    step_log.begin()
    tokens = torch.randint(0, 4096, (16, 513), device=device)
    loss_of(model, tokens).backward()
    optimizer.step()
    optimizer.zero_grad()
    step_log.end()
torch.cuda.synchronize()
torch.distributed.destroy_process_group()
