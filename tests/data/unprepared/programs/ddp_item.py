"""DDP with batches made on the host, a pageable copy and .item() in each step."""

import os
import torch, step_log
from torch.nn.parallel import DistributedDataParallel
from parts import Decoder, loss_of, start

rank, world, device = start()
torch.manual_seed(rank)
model = DistributedDataParallel(Decoder(2, 2048).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(int(os.environ.get("STEPS", "24"))):
    step_log.begin()
    tokens = torch.randint(0, 4096, (12, 513)).to(device)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_of(model, tokens)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    value = loss.item()
    step_log.end()
if rank == 0:
    print("loss", value)
torch.distributed.destroy_process_group()
