"""Hugging Face Trainer on a ModernBERT; the cause saves a checkpoint in each twelfth step.

The fix saves none in so few steps.
"""
# causes: idle, pageable_copy
import tempfile

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    ModernBertConfig,
    ModernBertForMaskedLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, PERIOD = 32, 512, 8, 512, 16_384, 12


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Random words, some of them masked, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (256, LENGTH))
        self.labels = self.words.masked_fill(torch.rand(self.words.shape) > 0.15, -100)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        place = index % len(self.words)
        return {"input_ids": self.words[place], "labels": self.labels[place]}


class Checkpoints(TrainerCallback):
    """Asks for a checkpoint in each PERIOD-th step, and ends each step of the turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.period = PERIOD
        turns.step()

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        control.should_save = self.turns.planted and state.global_step % PERIOD == 0
        return control

    def on_step_begin(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if state.global_step and not self.turns.step():
            control.should_training_stop = True
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = ModernBertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8,
        intermediate_size=2 * WIDTH, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        cls_token_id=1, sep_token_id=2, reference_compile=False, attn_implementation="sdpa",
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", save_total_limit=1, report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=ModernBertForMaskedLM(config), args=arguments, train_dataset=Texts(),
        callbacks=[Checkpoints(turns)],
    ).train()  # fmt: skip
