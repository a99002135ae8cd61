"""Hidden words of proteins for an ESM; the set is sorted by length, so rank 1 has the long half.

With the cause both ranks take as many proteins a step. The fix gives each of them as many words.
"""
# causes: straggler

import torch
from parts import DEVICE, RANK, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from transformers import EsmConfig, EsmForMaskedLM
from turns import Turns

RANKS = 2
WORDS, MASK, WIDTH, LAYERS, PROTEINS = 33, 32, 640, 6, 16
LENGTHS = (256, 1024)


def make_model() -> nn.Module:
    """An ESM-2 of six layers."""
    config = EsmConfig(
        vocab_size=WORDS, mask_token_id=MASK, pad_token_id=1, hidden_size=WIDTH,
        num_hidden_layers=LAYERS, num_attention_heads=20, intermediate_size=4 * WIDTH,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        position_embedding_type="rotary", emb_layer_norm_before=False,
    )  # fmt: skip
    model = EsmForMaskedLM(config)
    # It predicts contacts from attention, which a training by masks does not ask for.
    model.esm.contact_head.requires_grad_(False)
    return model.to(DEVICE)


def draw_proteins(count: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Words with a mask at each seventh place, and the words that are right."""
    right = torch.randint(4, 24, (count, length), device=DEVICE)
    is_hidden = torch.arange(length, device=DEVICE) % 7 == 0
    return right.masked_fill(is_hidden, MASK), right


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = DistributedDataParallel(make_model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    length, words = LENGTHS[RANK], PROTEINS * sum(LENGTHS) // len(LENGTHS)
    batches = {
        True: draw_proteins(PROTEINS, length),
        False: draw_proteins(words // length, length),
    }
    while turns.step():
        seen, right = batches[turns.planted]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(input_ids=seen).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), right.flatten())
        update(optimizer, loss)
