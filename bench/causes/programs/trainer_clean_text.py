"""Hugging Face Trainer on a RoBERTa that rates reviews; the cause cleans and cuts each text anew.

The fix takes the words that were cut before the training.
"""
# causes: idle
import html
import random
import re
import unicodedata

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    RobertaConfig,
    RobertaForSequenceClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TEXTS, STARS = 48, 256, 8, 768, 16384, 768, 5
SYLLABLES = "ba de fi go lu ma ne pi ro su ta vé &amp; <br/> don't n&ouml;t 3.50€ , . !".split(" ")
LINK = re.compile(r"https?://\S+|www\.\S+")
TAG = re.compile(r"<[^>]+>")
PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]")

Text = dict[str, torch.Tensor]


def write_review() -> str:
    parts = ["".join(random.choices(SYLLABLES, k=random.randint(1, 3))) for _ in range(LENGTH)]
    return " ".join(parts)


class Reviews(Dataset[Text]):
    """Reviews as they were written, and the words of each."""

    def __init__(self, turns: Turns) -> None:
        random.seed(0)
        self.turns = turns
        self.vocabulary: dict[str, int] = {}
        self.reviews = [write_review() for _ in range(TEXTS)]
        self.rows = [self.cut(review) for review in self.reviews]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Text:
        number = index % TEXTS
        row = self.cut(self.reviews[number]) if self.turns.planted else self.rows[number]
        return {"input_ids": row, "labels": torch.tensor(number % STARS)}

    def cut(self, review: str) -> torch.Tensor:
        """The numbers of the first LENGTH words of a review without its markup."""
        text = LINK.sub(" ", TAG.sub(" ", html.unescape(review)))
        text = "".join(
            letter
            for letter in unicodedata.normalize("NFD", text.lower())
            if unicodedata.category(letter) != "Mn"
        )
        words = PIECE.findall(text)[:LENGTH]
        known = self.vocabulary
        numbers = [2 + known.setdefault(word, len(known)) % (WORDS - 2) for word in words]
        return torch.tensor(numbers + [2] * (LENGTH - len(numbers)))


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = RobertaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH + 8, num_labels=STARS,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_clean_text", per_device_train_batch_size=BATCH, bf16=True,
        max_steps=1_000_000, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=RobertaForSequenceClassification(config), args=arguments,
        train_dataset=Reviews(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
