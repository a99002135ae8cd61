"""A GPT of many words in a pipeline of two stages; the cause gives both stages as many blocks.

The second has the head and the loss, too. The fix gives it fewer blocks.
"""
# causes: pipeline

import torch
from parts import DEVICE, RANK, Block, draw_tokens, use_ranks
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from turns import Turns

RANKS = 2
PARTS, BATCH, LENGTH, WIDTH, HEADS, WORDS = 8, 64, 512, 1024, 16, 32_000
BLOCKS = {True: (5, 5), False: (7, 3)}


def make_stage(count: int) -> nn.Module:
    """This rank's blocks, after the embedding on the first and before the head on the second."""
    layers: list[nn.Module] = [Block(WIDTH, HEADS) for _ in range(count)]
    if RANK == 0:
        layers.insert(0, nn.Embedding(WORDS, WIDTH))
    else:
        layers += [nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)]
    return nn.Sequential(*layers).to(DEVICE, torch.bfloat16)


def find_loss(logits: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten())


def make_schedule(stage: nn.Module) -> Schedule1F1B:
    place = PipelineStage(stage, RANK, RANKS, torch.device(DEVICE))
    return Schedule1F1B(place, PARTS, loss_fn=find_loss)


def run(turns: Turns) -> None:
    use_ranks(turns)
    stages = {planted: make_stage(BLOCKS[planted][RANK]) for planted in (True, False)}
    schedules = {planted: make_schedule(stage) for planted, stage in stages.items()}
    optimizers = {
        planted: torch.optim.AdamW(stage.parameters(), lr=1e-4, fused=True)
        for planted, stage in stages.items()
    }
    words = draw_tokens(BATCH, LENGTH + 1, WORDS)
    seen, right = words[:, :-1].contiguous(), words[:, 1:].contiguous()
    while turns.step():
        optimizers[turns.planted].zero_grad(set_to_none=True)
        if RANK == 0:
            schedules[turns.planted].step(seen)
        else:
            schedules[turns.planted].step(target=right)
        optimizers[turns.planted].step()
