"""A GPT trained in bf16; the cause is its vocabulary of 50,257 words, the fix fills it to 50,304.

Rows of 50,257 numbers of 16 bits begin at addresses that tensor cores cannot load at once.
"""
# causes: unaligned_matmul
import torch
from parts import DEVICE, Gpt, draw_tokens, language_loss, update, use_gpu
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, FILLED = 16, 513, 6, 768, 50_257, 50_304


def run(turns: Turns) -> None:
    use_gpu(turns)
    models = [Gpt(LAYERS, WIDTH, 12, words).to(DEVICE) for words in (FILLED, WORDS)]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True) for model in models]
    tokens = draw_tokens(BATCH, LENGTH, WORDS)
    while turns.step():
        chosen = int(turns.planted)
        update(optimizers[chosen], language_loss(models[chosen], tokens))
