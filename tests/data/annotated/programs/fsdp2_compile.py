"""FSDP2 over compiled blocks."""

import torch, watch
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
from torch.distributed.device_mesh import init_device_mesh
from parts import Decoder, loss_of

rank, world, device = watch.start()
model = Decoder(2 if watch.SMALL else 4, 64 if watch.SMALL else 2048).to(device)
more = {"mesh": init_device_mesh(device.type, (world,))}
if watch.CUDA:
    more["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
for block in model.blocks:
    block.compile(**({"backend": "aot_eager"} if watch.SMALL else {}))
    fully_shard(block, **more)
fully_shard(model, **more)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
for step in range(watch.STEPS):
    tokens = torch.randint(0, 4096, (2, 33) if watch.SMALL else (16, 513), device=device)
    loss = loss_of(model, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    watch.step(loss)
torch.distributed.destroy_process_group()
