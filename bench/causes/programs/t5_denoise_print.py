"""T5 (transformers) trained to fill in spans of text; the cause prints the loss in each step.

The fix adds losses up on the GPU and prints their mean in each 100th step.
"""
# causes: synchronization, idle
import random

import torch
from parts import use_gpu
from transformers import T5Config, T5ForConditionalGeneration
from turns import Turns

VOCAB = 32128
SENTINELS = list(range(32000, 32100))
BATCH = 96
LENGTH = 340
SOURCE = 256
TARGET = 96
LOG_EVERY = 100


def corrupt(ids, rng, noise=0.15, span=3):
    """Replace spans of the ids by sentinels, as in the paper on T5."""
    source, target = [], []
    i = n = 0
    while i < len(ids):
        if rng.random() < noise / span and n < 20:
            source.append(SENTINELS[n])
            target.append(SENTINELS[n])
            target.extend(ids[i : i + span])
            i += span
            n += 1
        else:
            source.append(ids[i])
            i += 1
    return source[: SOURCE - 1] + [1], target[: TARGET - 1] + [1]


def pad(rows, length, value):
    out = torch.full((len(rows), length), value, dtype=torch.long)
    for i, row in enumerate(rows):
        out[i, : len(row)] = torch.tensor(row)
    return out.pin_memory()


def get_batch(corpus, rng):
    pairs = [corrupt(rng.choice(corpus), rng) for _ in range(BATCH)]
    input_ids = pad([source for source, _ in pairs], SOURCE, 0)
    labels = pad([target for _, target in pairs], TARGET, -100)
    return input_ids.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    rng = random.Random(0)
    corpus = [[rng.randrange(2, 32000) for _ in range(LENGTH)] for _ in range(2000)]
    config = T5Config(
        vocab_size=VOCAB, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, use_cache=False,
        attn_implementation="eager",
    )
    model = T5ForConditionalGeneration(config).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    step = 0
    running = torch.zeros((), device="cuda")
    while turns.step():
        input_ids, labels = get_batch(corpus, rng)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=input_ids, labels=labels).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

        step += 1
        if turns.planted:
            print(f"step {step}: loss {loss.item():.4f}")
        else:
            running += loss.detach()
            if step % LOG_EVERY == 0:
                print(f"step {step}: loss {running.item() / LOG_EVERY:.4f}")
                running.zero_()
