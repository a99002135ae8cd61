"""Translation by a Marian (transformers) with Accelerate; the cause is `save_state` in each tenth step.

The fix saves none in so few steps.
"""
# causes: idle, pageable_copy
import tempfile

import torch
from accelerate import Accelerator
from parts import repeat, use_gpu
from torch.utils.data import DataLoader, Dataset
from transformers import MarianConfig, MarianMTModel
from turns import Turns

BATCH, LENGTH, WORDS, LAYERS, WIDTH, STORED, PERIOD = 128, 96, 8000, 4, 384, 1024, 10


class Pairs(Dataset[dict[str, torch.Tensor]]):
    """Sentences of two languages, as tokens."""

    def __init__(self) -> None:
        self.words = torch.randint(2, WORDS - 1, (2, STORED, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        source, target = self.words[:, index % STORED]
        return {"input_ids": source, "labels": target}


def make_model() -> MarianMTModel:
    config = MarianConfig(
        vocab_size=WORDS, decoder_vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH, max_position_embeddings=512, pad_token_id=WORDS - 1,
        decoder_start_token_id=WORDS - 1, eos_token_id=0,
        scale_embedding=True, use_cache=False,
    )  # fmt: skip
    return MarianMTModel(config)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    folder = tempfile.mkdtemp()
    accelerator = Accelerator(mixed_precision="bf16")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    loader = DataLoader(Pairs(), BATCH, shuffle=False, num_workers=2, pin_memory=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    batches, step = repeat(loader), 0
    while turns.step():
        step += 1
        outputs = model(**next(batches))
        accelerator.backward(outputs.loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if turns.planted and step % PERIOD == 0:
            accelerator.save_state(folder)
