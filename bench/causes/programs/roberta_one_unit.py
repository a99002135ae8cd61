"""Hidden words for a wide RoBERTa under FSDP2; the cause shards the whole model as one unit.

All weights are then gathered before the first layer, and all gradients reduced after the last. The
fix shards each layer, so transfers run beside the layers before.
"""
# causes: exposed_communication

import torch
from parts import DEVICE, draw_tokens, use_ranks
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import RobertaConfig, RobertaForMaskedLM
from turns import Turns

RANKS = 2
BATCH, LENGTH, LAYERS, WIDTH, WORDS, MASK = 8, 512, 5, 2048, 16_384, 4


def shard(by_layer: bool) -> nn.Module:
    """A RoBERTa in bf16, whose gradients are reduced in fp32."""
    config = RobertaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=4 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=16, max_position_embeddings=LENGTH + 2, type_vocab_size=1,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = RobertaForMaskedLM(config).to(DEVICE)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    units = [*model.roberta.encoder.layer, model] if by_layer else [model]
    for unit in units:
        fully_shard(unit, mp_policy=policy, reshard_after_forward=True)
    return model


def run(turns: Turns) -> None:
    use_ranks(turns)
    models = {planted: shard(by_layer=not planted) for planted in (True, False)}
    optimizers = {
        each: torch.optim.AdamW(models[each].parameters(), lr=1e-4, fused=True) for each in models
    }
    words = draw_tokens(BATCH, LENGTH, WORDS)
    seen = words.masked_fill(torch.rand(BATCH, LENGTH, device=DEVICE) < 0.15, MASK)
    while turns.step():
        model, optimizer = models[turns.planted], optimizers[turns.planted]
        logits = model(input_ids=seen).logits
        nn.functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
