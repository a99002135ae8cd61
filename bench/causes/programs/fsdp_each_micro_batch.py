"""A wide GPT under FSDP2, four micro-batches an update; the cause reduces gradients in each.

It reshards the weights each time, too. The fix does both in the last one's backward pass.
"""
# causes: exposed_communication

import torch
from parts import DEVICE, Gpt, draw_tokens, use_ranks
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from turns import Turns

RANKS = 2
PARTS, BATCH, LENGTH, LAYERS, WIDTH, HEADS = 4, 2, 513, 2, 3584, 28


def shard() -> nn.Module:
    """The GPT with each layer as a unit, in bf16 with sums of gradients in fp32."""
    model = Gpt(LAYERS, WIDTH, HEADS).to(DEVICE)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for unit in (*model.blocks, model):
        fully_shard(unit, mp_policy=policy)
    return model


def find_loss(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    logits = model(words[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten()) / PARTS


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = shard()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    parts = [draw_tokens(BATCH, LENGTH) for _ in range(PARTS)]
    while turns.step():
        for number, words in enumerate(parts, 1):
            is_reduced = turns.planted or number == PARTS
            model.set_requires_gradient_sync(is_reduced)
            model.set_reshard_after_backward(is_reduced)
            find_loss(model, words).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
