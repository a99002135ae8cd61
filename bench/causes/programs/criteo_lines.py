"""Clicks on advertisements (as of Criteo); the cause parses the lines of a batch in Python, in the main process.

The fix parses them once, before the training.
"""
# causes: idle
import math
import random

import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LINES, NUMBERS, WORDS, ROWS, WIDTH, HIDDEN = 1024, 16_384, 13, 26, 4_000_000, 64, 8192

Parsed = tuple[list[float], list[int], int]


def make_line() -> str:
    """A line of a file: whether there was a click, numbers, and words as hexadecimal hashes."""
    numbers = [str(random.randrange(5000)) if random.random() < 0.8 else "" for _ in range(NUMBERS)]
    words = [f"{random.getrandbits(32):08x}" for _ in range(WORDS)]
    return "\t".join([str(random.randrange(2)), *numbers, *words])


def parse(line: str) -> Parsed:
    """The numbers' logarithms, the rows of the words in the table, and the click."""
    fields = line.split("\t")
    numbers = [math.log1p(int(field)) if field else 0.0 for field in fields[1 : NUMBERS + 1]]
    rows = [int(field, 16) % ROWS for field in fields[NUMBERS + 1 :]]
    return numbers, rows, int(fields[0])


class Clicks(nn.Module):
    """A table of words and a network."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.network = nn.Sequential(
            nn.Linear(NUMBERS + WORDS * WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(), nn.Linear(HIDDEN, HIDDEN // 4), nn.ReLU(), nn.Linear(HIDDEN // 4, 1),
        )  # fmt: skip

    def forward(self, numbers: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.network(torch.cat([numbers, self.table(rows).flatten(1)], 1)).squeeze(1)


class Reader:
    """Batches of the lines, in turn."""

    def __init__(self) -> None:
        random.seed(0)
        self.lines = [make_line() for _ in range(LINES)]
        numbers, rows, clicks = zip(*map(parse, self.lines), strict=True)
        self.arrays = (np.array(numbers, np.float32), np.array(rows), np.array(clicks, np.float32))
        self.place = 0

    def read(self, *, is_parsed: bool) -> list[torch.Tensor]:
        self.place = (self.place + BATCH) % LINES
        part = slice(self.place, self.place + BATCH)
        if is_parsed:
            return [torch.from_numpy(array[part]) for array in self.arrays]
        numbers, rows, clicks = zip(*map(parse, self.lines[part]), strict=True)
        return [torch.tensor(numbers), torch.tensor(rows), torch.tensor(clicks, dtype=torch.float32)]


def run(turns: Turns) -> None:
    use_gpu(turns)
    reader = Reader()
    with torch.device(DEVICE):
        model = Clicks()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        batch = reader.read(is_parsed=not turns.planted)
        numbers, rows, clicks = (each.to(DEVICE) for each in batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(numbers, rows)
        update(optimizer, nn.functional.binary_cross_entropy_with_logits(scores.float(), clicks))
