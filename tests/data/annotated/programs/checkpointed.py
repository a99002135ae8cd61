"""DDP with a static graph over blocks whose activations are computed again in the backward pass."""

import torch, watch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from parts import Decoder, loss_of


class Recomputing(Decoder):
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


rank, world, device = watch.start()
net = watch.model(Recomputing(2 if watch.SMALL else 4, 64 if watch.SMALL else 2048).to(device))
model = DistributedDataParallel(net, static_graph=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(watch.STEPS):
    tokens = torch.randint(0, 4096, (2, 33) if watch.SMALL else (16, 513)).to(device)
    with watch.autocast(device):
        loss = loss_of(model, tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.step(loss)
torch.distributed.destroy_process_group()
