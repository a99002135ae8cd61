"""A GPT in a pipeline of four stages; the cause cuts the batch into four micro-batches.

The stages then idle in three of seven turns, and with the fix of 16 micro-batches in three of 19.
"""
# causes: pipeline

import torch
from parts import DEVICE, RANK, Block, draw_tokens, use_ranks
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from turns import Turns

RANKS = 4
BATCH, LENGTH, WIDTH, HEADS, WORDS, BLOCKS = 32, 512, 2048, 16, 4096, 2
PARTS = {True: 4, False: 16}


def make_stage() -> nn.Sequential:
    """This rank's blocks; the first stage has the embedding too, and the last the head."""
    layers: list[nn.Module] = [Block(WIDTH, HEADS) for _ in range(BLOCKS)]
    if RANK == 0:
        layers.insert(0, nn.Embedding(WORDS, WIDTH))
    if RANK == RANKS - 1:
        layers += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)]
    return nn.Sequential(*layers).to(DEVICE, torch.bfloat16)


def find_loss(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten())


def run(turns: Turns) -> None:
    use_ranks(turns)
    module = make_stage()
    schedules = {
        planted: Schedule1F1B(
            PipelineStage(module, RANK, RANKS, torch.device(DEVICE)), parts, loss_fn=find_loss
        )
        for planted, parts in PARTS.items()
    }
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    words = draw_tokens(BATCH, LENGTH + 1, WORDS)
    seen, right = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    while turns.step():
        schedule = schedules[turns.planted]
        optimizer.zero_grad(set_to_none=True)
        if RANK == 0:
            schedule.step(seen)
        elif RANK == RANKS - 1:
            schedule.step(target=right)
        else:
            schedule.step()
        optimizer.step()
