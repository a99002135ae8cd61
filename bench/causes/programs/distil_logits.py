"""A GPT that learns from the kept scores of a larger one; the cause keeps them in pageable memory.

The fix keeps them in pinned memory and copies them without waiting.
"""
# causes: pageable_copy
import torch
from parts import DEVICE, Gpt, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WORDS, TEXTS = 8, 512, 16_384, 24


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Gpt(12, 1024, words=WORDS).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    kept = torch.randn(TEXTS, LENGTH, WORDS).half()
    pinned = kept.pin_memory()
    tokens = torch.randint(WORDS, (TEXTS, LENGTH), device=DEVICE)
    place = 0
    while turns.step():
        part = slice(place, place + BATCH)
        place = (place + BATCH) % TEXTS
        if turns.planted:
            wanted = kept[part].to(DEVICE)
        else:
            wanted = pinned[part].to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(tokens[part])
        found = scores.flatten(0, 1).float().log_softmax(-1)
        wanted = wanted.flatten(0, 1).float().softmax(-1)
        update(optimizer, nn.functional.kl_div(found, wanted, reduction="batchmean"))
