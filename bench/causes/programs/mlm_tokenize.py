"""A BERT (transformers) that fills in masked words; the cause cuts the texts of each batch into tokens.

The fix has cut all texts before training.
"""
# causes: idle
import random
from itertools import count

import torch
from parts import DEVICE, update, use_gpu
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import BertConfig, BertForMaskedLM
from turns import Turns

BATCH, LENGTH, WORDS, TEXTS, LAYERS, WIDTH, MASKED = 32, 512, 4096, 256, 12, 768, 0.15


def write_texts() -> list[str]:
    """Texts of made-up words, most of them longer than LENGTH tokens."""
    draw = random.Random(0)
    letters = "etaoinshrdlu"
    words = ["".join(draw.choices(letters, k=draw.randint(3, 11))) for _ in range(20_000)]
    return [" ".join(draw.choices(words, k=LENGTH // 2)) for _ in range(TEXTS)]


def make_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte pairs that were joined in these texts; a text is cut and filled up to LENGTH."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["[PAD]", "[MASK]"]
    trainer = trainers.BpeTrainer(vocab_size=WORDS, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    return tokenizer


def cut(tokenizer: Tokenizer, texts: list[str]) -> torch.Tensor:
    return torch.tensor([encoded.ids for encoded in tokenizer.encode_batch(texts)])


def mask(words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The words with some masked, and the masked ones as labels."""
    is_masked = torch.rand(words.shape) < MASKED
    return words.masked_fill(is_masked, 1), words.masked_fill(~is_masked, -100)


def run(turns: Turns) -> None:
    use_gpu(turns)
    texts = write_texts()
    tokenizer = make_tokenizer(texts)
    ready = cut(tokenizer, texts)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH,
    )  # fmt: skip
    model = BertForMaskedLM(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for first in count(0, BATCH):
        if not turns.step():
            break
        chosen = [(first + place) % TEXTS for place in range(BATCH)]
        words = cut(tokenizer, [texts[i] for i in chosen]) if turns.planted else ready[chosen]
        words, labels = (each.pin_memory().to(DEVICE, non_blocking=True) for each in mask(words))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=words, labels=labels).loss
        update(optimizer, loss)
