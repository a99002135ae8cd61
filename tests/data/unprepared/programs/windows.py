"""DDP with a capture window at steps 10 to 14, 20 to 24 and 30 to 34."""

import torch, step_log
from torch.nn.parallel import DistributedDataParallel
from parts import Decoder, loss_of, start

rank, world, device = start()
model = DistributedDataParallel(Decoder(2, 512).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(40):
    if step in (10, 20, 30):
        torch.cuda.cudart().cudaProfilerStart()
    step_log.begin()
    loss = loss_of(model, torch.randint(0, 4096, (16, 257), device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    step_log.end()
    if step in (14, 24, 34):
        torch.cuda.cudart().cudaProfilerStop()
torch.distributed.destroy_process_group()
