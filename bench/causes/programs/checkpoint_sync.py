"""A GPT; the cause writes a checkpoint in the loop at each fifth step."""
# causes: idle, pageable_copy
import io

import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = 5
    model = Gpt(12, 768).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens, steps = draw_tokens(16, 513), 0
    while turns.step():
        steps += 1
        update(optimizer, language_loss(model, tokens))
        if turns.planted and steps % 5 == 0:
            torch.save(model.state_dict(), io.BytesIO())
