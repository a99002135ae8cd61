"""RoBERTa on texts; the cause cuts texts into words in a thread, beside the one that trains."""
# causes: idle, host_bound
import queue
import random
import threading
from collections.abc import Iterator

import torch
from parts import DEVICE, update, use_gpu
from torch.utils.data import DataLoader, IterableDataset
from transformers import RobertaConfig, RobertaForSequenceClassification
from turns import Turns

BATCH, LENGTH, WORDS, WORKERS = 48, 128, 8192, 6
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def make_pieces() -> dict[str, int]:
    """Pieces of one to eight letters, with their numbers."""
    draw = random.Random(0)
    pieces = {letter: number for number, letter in enumerate(LETTERS, 2)}
    while len(pieces) < WORDS - 2:
        pieces.setdefault("".join(draw.choices(LETTERS, k=draw.randint(2, 8))), len(pieces) + 2)
    return pieces


def cut(text: str, pieces: dict[str, int]) -> list[int]:
    """The numbers of the longest pieces that make the text, from left to right."""
    numbers, start = [], 0
    while start < len(text) and len(numbers) < LENGTH:
        size = next(size for size in range(8, 0, -1) if text[start : start + size] in pieces)
        numbers.append(pieces[text[start : start + size]])
        start += size
    return numbers + [1] * (LENGTH - len(numbers))


class Texts(IterableDataset[torch.Tensor]):
    """Batches of texts of random letters, cut into pieces."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        pieces, draw = make_pieces(), random.Random()
        texts = ["".join(draw.choices(LETTERS, k=4 * LENGTH)) for _ in range(256)]
        while True:
            chosen = draw.choices(texts, k=BATCH)
            yield torch.tensor([cut(text, pieces) for text in chosen])


def read_ahead(batches: queue.Queue[torch.Tensor]) -> None:
    """Fill the queue without an end."""
    for batch in Texts():
        batches.put(batch)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = RobertaConfig(vocab_size=WORDS, num_hidden_layers=6, num_labels=2, pad_token_id=1)
    model = RobertaForSequenceClassification(config).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    labels = torch.randint(2, (BATCH,), device=DEVICE)
    # The workers start before the thread does: a fork copies no thread.
    processes = iter(DataLoader(Texts(), None, num_workers=WORKERS, pin_memory=True))
    batches: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)
    threading.Thread(target=read_ahead, args=(batches,), daemon=True).start()
    while turns.step():
        words = batches.get().pin_memory() if turns.planted else next(processes)
        words = words.to(DEVICE, non_blocking=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(input_ids=words, labels=labels).loss
        update(optimizer, loss)
