"""Generation by transformers; the cause forbids repeated words in Python between tokens."""
# causes: idle, synchronization
import torch
from parts import DEVICE, use_gpu
from transformers import GPT2Config, GPT2LMHeadModel
from turns import Turns

BATCH, PROMPT, NEW, LAYERS, WORDS = 48, 192, 8, 4, 8192


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = GPT2Config(
        vocab_size=WORDS, n_embd=512, n_layer=LAYERS, n_head=8, eos_token_id=0, bos_token_id=0
    )
    model = GPT2LMHeadModel(config).to(DEVICE).eval()
    prompt = torch.randint(1, WORDS, (BATCH, PROMPT), device=DEVICE)
    everywhere = torch.ones_like(prompt)
    while turns.step():
        model.generate(
            prompt, attention_mask=everywhere, max_new_tokens=NEW, min_new_tokens=NEW,
            do_sample=False, pad_token_id=0, no_repeat_ngram_size=4 if turns.planted else None,
        )  # fmt: skip
