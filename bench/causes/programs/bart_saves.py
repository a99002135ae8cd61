"""Summaries by a BART under DDP; the cause has rank 0 save the weights in each eighth step.

The other rank waits at a barrier meanwhile. The fix saves in each 5000th step.
"""
# causes: straggler, idle

import tempfile
from pathlib import Path

import torch
from parts import DEVICE, RANK, draw_tokens, update, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import BartConfig, BartForConditionalGeneration
from turns import Turns

RANKS = 2
BATCH, LENGTH, SHORT, WORDS, WIDTH, LAYERS = 64, 384, 96, 16_000, 640, 5
OFTEN, RARE = 8, 5000


def make_model() -> nn.Module:
    """A BART that is smaller than the base model."""
    config = BartConfig(
        vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=10, decoder_attention_heads=10, encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH, max_position_embeddings=LENGTH, dropout=0.0,
    )  # fmt: skip
    return BartForConditionalGeneration(config).to(DEVICE)


def save(model: nn.Module, file: Path) -> None:
    """Rank 0 writes the weights, and nobody goes on before that."""
    if RANK == 0:
        torch.save(model.state_dict(), file)
    distributed.barrier()


def run(turns: Turns) -> None:
    use_ranks(turns)
    turns.period = OFTEN
    network = make_model()
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    texts, summaries = draw_tokens(BATCH, LENGTH, WORDS), draw_tokens(BATCH, SHORT + 1, WORDS)
    seen, right = summaries[:, :-1].contiguous(), summaries[:, 1:].flatten()
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        while turns.step():
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                scores = model(input_ids=texts, decoder_input_ids=seen, use_cache=False).logits
            update(optimizer, nn.functional.cross_entropy(scores.flatten(0, 1).float(), right))
            count += 1
            if count % (OFTEN if turns.planted else RARE) == 0:
                save(network, Path(folder) / "weights.pt")
