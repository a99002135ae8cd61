"""A compiled text classifier; the cause gives each 16th batch a length of its own, not padded."""
# causes: compile
import os
import tempfile

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, PERIOD = 128, 512, 1024, 16


class Classifier(nn.Module):
    """Two layers over words, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(8192, WIDTH), nn.LayerNorm(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.first(self.norm(self.embedding(words)))
        return self.second(nn.functional.gelu(x).mean(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    # No run finds what an earlier one compiled.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
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
