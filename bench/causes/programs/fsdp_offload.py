"""A GPT under FSDP2, its weights kept on the CPU; the cause leaves that memory pageable."""
# causes: pageable_copy
import torch
from parts import Gpt, draw_tokens, use_gpu
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH = 32, 512, 4, 768


def shard(pinned: bool) -> Gpt:
    """A GPT whose weights are on the CPU, and on the GPU while a block needs them."""
    model = Gpt(LAYERS, WIDTH, heads=12)
    for module in (*model.blocks, model):
        fully_shard(
            module,
            mesh=init_device_mesh("cuda", (1,)),
            mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16),
            offload_policy=CPUOffloadPolicy(pin_memory=pinned),
        )
    return model


def run(turns: Turns) -> None:
    use_gpu(turns)
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    models = {planted: shard(pinned=not planted) for planted in (True, False)}
    optimizers = {each: torch.optim.SGD(models[each].parameters(), lr=1e-3) for each in models}
    words = draw_tokens(BATCH, LENGTH + 1)
    while turns.step():
        model, optimizer = models[turns.planted], optimizers[turns.planted]
        logits = model(words[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    turns.synchronize()
    distributed.destroy_process_group()
