"""A compiled text classifier; the cause gives each eighth batch a length of its own, not padded."""

import torch
from parts import DEVICE, Block, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, PERIOD = 128, 512, 768, 8


class Classifier(nn.Module):
    """One block over words, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block = nn.Embedding(8192, WIDTH), Block(WIDTH, 12)
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.embedding(words)).mean(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 1000
    model = Classifier().to(DEVICE)
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    words = torch.randint(8192, (BATCH, LENGTH), device=DEVICE)
    labels = torch.randint(16, (BATCH,), device=DEVICE)
    length, steps = LENGTH, 0
    while turns.step():
        steps += 1
        batch = words
        if turns.planted and steps % PERIOD == 0:
            length -= 1
            batch = words[:, :length].contiguous()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = compiled(batch)
        update(optimizer, nn.functional.cross_entropy(scores.float(), labels))
