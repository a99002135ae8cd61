"""Hugging Face Trainer on a BERT that fills in hidden words; the cause picks whole words in Python, piece by piece.

Its collator joins the pieces of each text to words and hides words by chance, until a seventh of
the pieces is hidden. The fix does the same for all texts of a batch by NumPy.
"""

# causes: idle
import random

import numpy as np
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TEXTS = 72, 256, 6, 768, 8192, 4096
MASK, FIRST, SHARE = 4, 5, 0.15

Text = dict[str, list[int]]


def name_pieces() -> list[str]:
    """The text of each piece; a third of them go on with a word."""
    chance = np.random.default_rng(0)
    return [f"##{number}" if chance.random() < 0.33 else str(number) for number in range(WORDS)]


class Articles(Dataset[Text]):
    """Texts as numbers of pieces."""

    def __init__(self) -> None:
        self.rows = np.random.default_rng(1).integers(FIRST, WORDS, (TEXTS, LENGTH)).tolist()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Text:
        return {"input_ids": self.rows[index % TEXTS]}


class HideWords:
    """Joins texts to a batch, and hides some of their words."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.pieces = name_pieces()
        self.goes_on = np.array([piece.startswith("##") for piece in self.pieces])
        self.limit = round(SHARE * LENGTH)
        self.chance = np.random.default_rng(2)
        random.seed(0)

    def __call__(self, texts: list[Text]) -> dict[str, torch.Tensor]:
        rows = [text["input_ids"] for text in texts]
        words = np.array(rows)
        hidden = (
            np.array([self.hide(row) for row in rows])
            if self.turns.planted
            else self.hide_all(words)
        )
        return {
            "input_ids": torch.from_numpy(np.where(hidden, MASK, words)),
            "labels": torch.from_numpy(np.where(hidden, words, -100)),
        }

    def hide(self, row: list[int]) -> list[bool]:
        """Which pieces of one text are hidden."""
        words = self.join(row)
        random.shuffle(words)
        hidden: set[int] = set()
        for word in words:
            if len(hidden) + len(word) > self.limit:
                break
            for place in word:
                hidden.add(place)
        return [place in hidden for place in range(len(row))]

    def join(self, row: list[int]) -> list[list[int]]:
        """The places of the pieces of each word."""
        words: list[list[int]] = []
        for place, number in enumerate(row):
            piece = self.pieces[number]
            if words and piece.startswith("##"):
                words[-1].append(place)
            else:
                words.append([place])
        return words

    def hide_all(self, words: np.ndarray) -> np.ndarray:
        """Which pieces of all texts are hidden: words in an order by chance, up to the limit."""
        begins = ~self.goes_on[words]
        begins[:, 0] = True
        which = begins.cumsum(1) - 1
        texts = np.arange(len(words))[:, None]
        sizes = np.zeros_like(words)
        np.add.at(sizes, (np.broadcast_to(texts, words.shape), which), 1)
        order = np.argsort(np.where(sizes > 0, self.chance.random(words.shape), 2.0), axis=1)
        taken = np.take_along_axis(sizes, order, 1).cumsum(1) <= self.limit
        chosen = np.empty_like(begins)
        np.put_along_axis(chosen, order, taken, 1)
        return np.take_along_axis(chosen, which, 1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_whole_words", per_device_train_batch_size=BATCH, bf16=True,
        max_steps=1_000_000, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )  # fmt: skip
    Trainer(
        model=BertForMaskedLM(config), args=arguments, train_dataset=Articles(),
        data_collator=HideWords(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
