"""torch.compile over a whole decoder; COMPILE_MODE=reduce-overhead replays CUDA graphs. One GPU."""

import os
import torch, watch
from parts import Decoder, loss_of

rank, world, device = watch.start()
net = Decoder(2 if watch.SMALL else 6, 64 if watch.SMALL else 1024).to(device)
more = {"backend": "aot_eager"} if watch.SMALL else {"mode": os.environ.get("COMPILE_MODE", "default")}
model = torch.compile(net, **more)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
for step in range(watch.STEPS):
    tokens = torch.randint(0, 4096, (2, 33) if watch.SMALL else (16, 513)).to(device)
    with watch.autocast(device):
        loss = loss_of(model, tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.step(loss.clone())
