"""Hugging Face Trainer on an ALBERT that compares sentences; the cause reads what it thinks of each pair.

A map of the data set (data cartography) needs the share of the right label and whether it won. The
fix keeps both in tables on the GPU, which are read after the epoch.
"""
# causes: synchronization, tiny_kernels, host_bound
from collections import defaultdict

import torch
from parts import DEVICE, use_gpu
from torch.utils.data import Dataset
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, PAIRS, LABELS, WORDS = 96, 128, 9600, 3, 30_000

Sample = dict[str, torch.Tensor]


class Sentences(Dataset[Sample]):
    """Pairs of sentences as tokens, their numbers and labels, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(5, WORDS, (PAIRS, LENGTH))
        self.labels = torch.randint(LABELS, (PAIRS,))
        self.numbers = torch.arange(PAIRS)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Sample:
        number = index % PAIRS
        return {
            "input_ids": self.words[number],
            "labels": self.labels[number],
            "number": self.numbers[number],
        }


class HostMap:
    """The training dynamics of each pair, as lists of Python."""

    def __init__(self) -> None:
        self.shares: dict[int, list[float]] = defaultdict(list)
        self.wins: dict[int, list[bool]] = defaultdict(list)

    def keep(self, numbers: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor) -> None:
        shares = logits.softmax(-1)
        for row, (number, label) in enumerate(zip(numbers.tolist(), labels.tolist())):
            self.shares[number].append(shares[row, label].item())
            self.wins[number].append(logits[row].argmax().item() == label)


class GpuMap:
    """The sums of the same numbers, on the GPU."""

    def __init__(self) -> None:
        self.shares, self.wins = torch.zeros(2, PAIRS, device=DEVICE)

    def keep(self, numbers: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor) -> None:
        shares = logits.softmax(-1).gather(1, labels[:, None]).squeeze(1)
        self.shares.index_add_(0, numbers, shares)
        self.wins.index_add_(0, numbers, (logits.argmax(-1) == labels).float())


class Cartographer(Trainer):
    """Keeps the training dynamics of each pair."""

    def __init__(self, turns: Turns, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.turns, self.on_host, self.on_gpu = turns, HostMap(), GpuMap()

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        numbers = inputs.pop("number")
        outputs = model(**inputs)
        kept = self.on_host if self.turns.planted else self.on_gpu
        kept.keep(numbers, outputs.logits.detach().float(), inputs["labels"])
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = AlbertConfig(
        vocab_size=WORDS, hidden_size=768, num_attention_heads=12, intermediate_size=3072,
        num_hidden_layers=12, hidden_act="gelu", num_labels=LABELS,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/cartography_items", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=4, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )  # fmt: skip
    Cartographer(
        turns, model=AlbertForSequenceClassification(config), args=arguments,
        train_dataset=Sentences(), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
