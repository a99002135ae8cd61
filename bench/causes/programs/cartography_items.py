"""Pairs of sentences told by an ALBERT (transformers); the cause reads what the network thinks of each pair.

A map of the data set (data cartography) needs the share of the right label and whether it won. The
fix keeps both in tables on the GPU, which are read after the epoch.
"""
# causes: synchronization, tiny_kernels, host_bound
from collections import defaultdict

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from transformers import AlbertConfig, AlbertForSequenceClassification
from turns import Turns

BATCH, LENGTH, PAIRS, LABELS, WORDS = 96, 128, 9600, 3, 30_000


class HostMap:
    """The training dynamics of each pair, as lists of Python."""

    def __init__(self) -> None:
        self.shares: dict[int, list[float]] = defaultdict(list)
        self.wins: dict[int, list[bool]] = defaultdict(list)

    def keep(self, numbers: torch.Tensor, logits: torch.Tensor, labels: list[int]) -> None:
        shares = logits.softmax(-1)
        for row, (number, label) in enumerate(zip(numbers.tolist(), labels)):
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


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = AlbertConfig(
        vocab_size=WORDS, hidden_size=768, num_attention_heads=12, intermediate_size=3072,
        num_hidden_layers=12, hidden_act="gelu", num_labels=LABELS,
    )  # fmt: skip
    model = AlbertForSequenceClassification(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    words = torch.randint(5, WORDS, (PAIRS, LENGTH)).pin_memory()
    labels = torch.randint(LABELS, (PAIRS,)).pin_memory()
    numbers = torch.arange(PAIRS).pin_memory()
    on_host, on_gpu = HostMap(), GpuMap()
    first = 0
    while turns.step():
        part = slice(first, first + BATCH)
        first = (first + BATCH) % PAIRS
        wanted = labels[part].to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(input_ids=words[part].to(DEVICE, non_blocking=True)).logits
        logits = logits.float()
        seen = logits.detach()
        if turns.planted:
            on_host.keep(numbers[part], seen, labels[part].tolist())
        else:
            on_gpu.keep(numbers[part].to(DEVICE, non_blocking=True), seen, wanted)
        update(optimizer, nn.functional.cross_entropy(logits, wanted))
