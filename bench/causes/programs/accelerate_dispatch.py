"""A GPT with Accelerate; rank 0 reads the texts of all ranks, and sends each rank its part.

So Accelerate does by default with a data set that has no index. With the fix each rank reads
texts of its own.
"""
# causes: straggler, idle, synchronization
import itertools
import random
import re
from collections.abc import Iterator

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from parts import DEVICE, RANK, Gpt, use_ranks
from torch import nn
from torch.utils.data import DataLoader, IterableDataset
from turns import Turns

RANKS = 2
BATCH, LENGTH, LAYERS, WIDTH, WORDS, TEXTS = 32, 512, 12, 768, 8192, 256

LETTERS = "etaoinshrdlu"
ENDS = re.compile(r"\w+|[^\w\s]")


def list_pieces() -> dict[str, int]:
    """Numbers of all pieces of one and two letters, and of some longer ones."""
    pairs = ["".join(letters) for letters in itertools.product(LETTERS, repeat=2)]
    long = ["".join(random.choices(LETTERS, k=random.choice((3, 4)))) for _ in range(4000)]
    return {
        piece: number
        for number, piece in enumerate(["", ".", *LETTERS, *pairs, *dict.fromkeys(long)])
    }


def write_text() -> str:
    """Words by chance, with dots."""
    words = ("".join(random.choices(LETTERS, k=random.randint(1, 8))) for _ in range(240))
    return " ".join(word + random.choice((".", "", "", "")) for word in words)


class Texts(IterableDataset[torch.Tensor]):
    """Every n-th text from one on, as numbers of the longest pieces that its words begin with."""

    def __init__(self, first: int, apart: int) -> None:
        self.first, self.apart = first, apart
        random.seed(0)
        self.pieces = list_pieces()
        self.texts = [write_text() for _ in range(TEXTS)]

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in itertools.count(self.first, self.apart):
            yield self.read(self.texts[number % TEXTS])

    def read(self, text: str) -> torch.Tensor:
        numbers = [number for word in ENDS.findall(text) for number in self.split(word)]
        return torch.tensor([*numbers[: LENGTH + 1], *(LENGTH + 1 - len(numbers)) * [0]])

    def split(self, word: str) -> Iterator[int]:
        while word:
            end = next(end for end in range(len(word), 0, -1) if word[:end] in self.pieces)
            yield self.pieces[word[:end]]
            word = word[end:]


def run(turns: Turns) -> None:
    use_ranks(turns)
    accelerator = Accelerator(
        mixed_precision="bf16", dataloader_config=DataLoaderConfiguration(dispatch_batches=True)
    )
    model = Gpt(LAYERS, WIDTH, heads=12, words=WORDS).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model, optimizer, sent = accelerator.prepare(
        model, optimizer, DataLoader(Texts(0, 1), BATCH, pin_memory=True)
    )
    own = DataLoader(Texts(RANK, RANKS), BATCH, pin_memory=True)
    batches = {True: iter(sent), False: iter(own)}
    while turns.step():
        words = next(batches[turns.planted]).to(DEVICE, non_blocking=True)
        logits = model(words[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten())
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
