"""Plain DDP over a decoder, bf16 autocast, clipped gradients."""

import torch, watch
from torch.nn.parallel import DistributedDataParallel
from parts import Decoder, loss_of

rank, world, device = watch.start()
net = watch.model(Decoder(2 if watch.SMALL else 6, 64 if watch.SMALL else 2048).to(device))
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(watch.STEPS):
    tokens = torch.randint(0, 4096, (2, 33) if watch.SMALL else (16, 513)).to(device)
    with watch.autocast(device):
        loss = loss_of(model, tokens)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    watch.step(loss)
torch.distributed.destroy_process_group()
