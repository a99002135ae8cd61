"""Intents of sentences by a multilingual XLM-R, four micro-batches an update.

The cause lets DDP reduce the gradients in each of the four, those of 250,000 words too. The fix is
`no_sync()` in all but the last.
"""
# causes: exposed_communication

import contextlib

import torch
from parts import DEVICE, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification
from turns import Turns

RANKS = 2
PARTS, BATCH, LENGTH, LAYERS, WIDTH, WORDS, INTENTS = 4, 24, 128, 6, 768, 250_002, 60


def make_model() -> nn.Module:
    """XLM-R with all of its words and half of its layers."""
    config = XLMRobertaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 64, intermediate_size=4 * WIDTH, type_vocab_size=1,
        max_position_embeddings=514, num_labels=INTENTS,
    )  # fmt: skip
    return XLMRobertaForSequenceClassification(config).to(DEVICE)


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    words = torch.randint(3, WORDS, (PARTS, BATCH, LENGTH), device=DEVICE)
    intents = torch.randint(INTENTS, (PARTS, BATCH), device=DEVICE)
    while turns.step():
        optimizer.zero_grad(set_to_none=True)
        for number in range(PARTS):
            is_kept = not turns.planted and number < PARTS - 1
            with model.no_sync() if is_kept else contextlib.nullcontext():
                with torch.autocast(DEVICE, dtype=torch.bfloat16):
                    loss = model(input_ids=words[number], labels=intents[number]).loss
                (loss / PARTS).backward()
        optimizer.step()
