"""Hugging Face Trainer on a BERT that classifies texts; the cause pads all texts to 512 words.

The fix pads those of a batch to its longest.
"""
# causes: none
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, MOST, TYPICAL, LAYERS, WIDTH, WORDS, TEXTS = 64, 512, 90, 8, 768, 8192, 2048

Text = dict[str, torch.Tensor]


class Reviews(Dataset[Text]):
    """Texts of 20 words to MOST, most of them short; the topic of each."""

    def __init__(self) -> None:
        lengths = torch.empty(TEXTS).log_normal_(torch.tensor(TYPICAL).log().item(), 0.35)
        self.texts = [
            {"input_ids": torch.randint(1, WORDS, (length,)), "labels": torch.randint(8, ())}
            for length in lengths.int().clamp(20, MOST).tolist()
        ]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Text:
        return self.texts[index % TEXTS]


class Pad:
    """Joins texts to a batch."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    def __call__(self, texts: list[Text]) -> Text:
        longest = max(len(text["input_ids"]) for text in texts)
        words = torch.zeros(len(texts), MOST if self.turns.planted else longest, dtype=torch.long)
        for row, text in zip(words, texts, strict=True):
            row[: len(text["input_ids"])] = text["input_ids"]
        labels = torch.stack([text["labels"] for text in texts])
        return {"input_ids": words, "attention_mask": (words > 0).long(), "labels": labels}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=MOST, num_labels=8,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_padding", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=BertForSequenceClassification(config), args=arguments, train_dataset=Reviews(),
        data_collator=Pad(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
