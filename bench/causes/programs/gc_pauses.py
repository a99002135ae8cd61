"""A GPT beside a large heap of Python objects; the cause collects garbage in each step."""
# causes: idle
import gc

import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(12, 768).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = draw_tokens(24, 513)
    records = [{"id": number, "words": [number]} for number in range(200_000)]
    while turns.step():
        update(optimizer, language_loss(model, tokens))
        if turns.planted:
            gc.collect()
    assert records
