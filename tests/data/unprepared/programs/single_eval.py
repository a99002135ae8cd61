"""One GPU, no framework: evaluates every eight steps, writes a checkpoint every fifteen."""

import os, tempfile
import torch, step_log
from parts import Decoder, loss_of

device = torch.device("cuda")
model = Decoder(2, 1024).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
held_out = torch.randint(0, 4096, (8, 257), device=device)
path = os.path.join(tempfile.mkdtemp(), "model.pt")
for step in range(36):
    step_log.begin()
    if step % 8 == 0:
        with torch.no_grad():
            [loss_of(model, held_out) for _ in range(5)]
    loss = loss_of(
        model, torch.randint(0, 4096, (8, 257)).pin_memory().to(device, non_blocking=True)
    )
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 15 == 14:
        torch.save(model.state_dict(), path)
    step_log.end()
torch.cuda.synchronize()
