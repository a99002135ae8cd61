"""Hugging Face Trainer on a RoBERTa (norms first) that fills holes in programs; the cause is `logging_steps=1`, to TensorBoard.

The loss and the gradients' norm are read in each step, and the loss is tested for NaN before, as by
default. The fix logs each 500th step, with `logging_nan_inf_filter=False`.
"""
# causes: synchronization, idle
import tempfile
from importlib.util import find_spec

import numpy as np
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TOKENS, RARELY = 28, 512, 8, 768, 8192, 2_000_000, 500
MASK, HIDDEN = 4, 0.15


class Code(Dataset[dict[str, torch.Tensor]]):
    """Windows of one long row of tokens, some of them hidden."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.tokens = random.integers(5, WORDS, TOKENS).astype(np.uint16)
        self.hidden = random.random(TOKENS) < HIDDEN

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        first = index * 331 % (TOKENS - LENGTH)
        window = slice(first, first + LENGTH)
        words = torch.from_numpy(self.tokens[window].astype(np.int64))
        hidden = torch.from_numpy(self.hidden[window])
        return {
            "input_ids": words.masked_fill(hidden, MASK), "labels": words.masked_fill(~hidden, -100)
        }  # fmt: skip


class Log(TrainerCallback):
    """Logs each step or few of them, and ends each step of the turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.step()

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        control.should_log = self.turns.planted or state.global_step % RARELY == 0
        return control

    def on_step_begin(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if state.global_step and not self.turns.step():
            control.should_training_stop = True
        args.logging_nan_inf_filter = self.turns.planted
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = RobertaPreLayerNormConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH + 2, type_vocab_size=1,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", dataloader_num_workers=0,
        disable_tqdm=True, report_to=["tensorboard"] if find_spec("tensorboard") else [],
    )  # fmt: skip
    Trainer(
        model=RobertaPreLayerNormForMaskedLM(config), args=arguments, train_dataset=Code(),
        callbacks=[Log(turns)],
    ).train()  # fmt: skip
