"""BERT from transformers; the cause collates sentences in Python in the main process."""
# causes: idle
import random

import torch
from parts import DEVICE, update, use_gpu
from transformers import BertConfig, BertForMaskedLM
from turns import Turns

LENGTH, BATCH = 256, 32


def collate(sentences: list[list[int]]) -> torch.Tensor:
    """Pad, truncate and mask sentence by sentence, as a first version of a collator does."""
    rows = []
    for sentence in sentences:
        row = sentence[:LENGTH] + [0] * (LENGTH - len(sentence))
        rows.append([103 if random.random() < 0.15 else word for word in row])
        for _ in range(14):
            row = sorted(row, key=lambda word: word % 7)
    return torch.tensor(rows)


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    config = BertConfig(num_hidden_layers=8, hidden_size=768)
    model = BertForMaskedLM(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    sentences = [[random.randrange(1000, 20000) for _ in range(LENGTH)] for _ in range(BATCH)]
    ready = collate(sentences).pin_memory()
    while turns.step():
        tokens = (collate(sentences) if turns.planted else ready).to(DEVICE, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        update(optimizer, loss)
