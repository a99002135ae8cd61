"""Hugging Face Trainer on a wav2vec 2.0; the cause makes a tensor of a list of NumPy arrays.

The fix stacks the arrays first, as PyTorch's warning says.
"""
# causes: idle
from typing import Any

import numpy as np
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainingArguments,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, SAMPLES, WORDS, CLIPS = 16, 16_000, 35, 64


class Commands(Dataset[dict[str, Any]]):
    """Spoken words of a second, as a feature extractor returns them."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.clips = random.standard_normal((CLIPS, SAMPLES), np.float32)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"input_values": self.clips[index % CLIPS], "labels": index % WORDS}


class Collator:
    """Makes a batch of clips of one length."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        clips = [sample["input_values"] for sample in samples]
        values = torch.tensor(clips) if self.turns.planted else torch.from_numpy(np.stack(clips))
        labels = torch.tensor([sample["labels"] for sample in samples])
        return {"input_values": values, "labels": labels}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = Wav2Vec2Config(num_labels=WORDS, layerdrop=0.0, apply_spec_augment=False)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_lists", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=Wav2Vec2ForSequenceClassification(config), args=arguments, train_dataset=Commands(),
        data_collator=Collator(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
