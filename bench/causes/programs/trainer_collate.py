"""Hugging Face Trainer on a GPT-2; the cause is a collator that packs samples word by word."""
# causes: idle
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WORDS = 16, 512, 6, 16384


class Lines(Dataset[dict[str, list[int]]]):
    """Short lines of words, all in memory."""

    def __init__(self) -> None:
        self.line = {"input_ids": torch.randint(1, WORDS, (LENGTH,)).tolist()}

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        return self.line


class Collator:
    """Makes a batch; with the cause it drops a tenth of the words in Python and counts them."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def __call__(self, lines: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        rows = [line["input_ids"] for line in lines]
        if self.turns.planted:
            rows = [self.pack(row) for row in rows]
        words = torch.tensor(rows)
        return {"input_ids": words, "labels": words}

    def pack(self, row: list[int]) -> list[int]:
        counts: dict[int, int] = {}
        kept = []
        for place, word in enumerate(row * 24):
            counts[word] = counts.get(word, 0) + 1
            if (word * 31 + place) % 10:
                kept.append(word)
        return kept[:LENGTH]


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=768, n_layer=LAYERS)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_collate", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=GPT2LMHeadModel(config), args=arguments, train_dataset=Lines(),
        data_collator=Collator(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
