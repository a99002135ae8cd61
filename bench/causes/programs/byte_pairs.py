"""Topics of short texts; the cause joins letters to tokens in Python before each batch.

The fix keeps the tokens of words that came before.
"""
# causes: idle, host_bound
import random
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

TEXTS, BATCH, TEXT, LENGTH, VOCABULARY, MERGES = 256, 12, 40, 160, 500, 150
LAYERS, WIDTH, CLASSES = 10, 512, 20
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Pair = tuple[str, str]


def join(parts: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    """The parts of a word, with each such pair as one part."""
    joined: list[str] = []
    at = 0
    while at < len(parts):
        if parts[at : at + 2] == pair:
            joined.append(parts[at] + parts[at + 1])
            at += 2
        else:
            joined.append(parts[at])
            at += 1
    return tuple(joined)


def learn_merges(words: list[str]) -> dict[Pair, int]:
    """The pairs that came most often, in the order in which they are joined."""
    split, ranks = [tuple(word) for word in words], dict[Pair, int]()
    while len(ranks) < MERGES:
        counts = Counter(pair for parts in split for pair in pairwise(parts))
        pair = max(counts, key=lambda each: (counts[each], each))
        ranks[pair] = len(ranks)
        split = [join(parts, pair) for parts in split]
    return ranks


def cut(word: str, ranks: dict[Pair, int]) -> tuple[str, ...]:
    """The tokens of a word."""
    parts = tuple(word)
    while len(parts) > 1:
        pairs = set(pairwise(parts))
        pair = min(pairs, key=lambda each: ranks.get(each, MERGES))
        if pair not in ranks:
            break
        parts = join(parts, pair)
    return parts


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    chance = random.Random(0)
    words = ["".join(chance.choices(LETTERS, k=chance.randint(3, 12))) for _ in range(VOCABULARY)]
    texts = [chance.choices(words, k=TEXT) for _ in range(TEXTS)]
    ranks = learn_merges(words)
    numbers = {token: i for i, token in enumerate([*LETTERS, *(a + b for a, b in ranks)], 1)}
    cut_and_keep = lru_cache(None)(lambda word: cut(word, ranks))
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, 0.0, batch_first=True)
    embedding = nn.Embedding(len(numbers) + 1, WIDTH).to(DEVICE).bfloat16()
    encoder = nn.TransformerEncoder(layer, LAYERS).to(DEVICE).bfloat16().eval()
    head = nn.Linear(WIDTH, CLASSES).to(DEVICE).bfloat16()
    steps, topics = 0, torch.zeros(0)
    while turns.step():
        batch = [texts[(steps * BATCH + i) % TEXTS] for i in range(BATCH)]
        rows = []
        for text in batch:
            tokens = [
                numbers[token]
                for word in text
                for token in (cut(word, ranks) if turns.planted else cut_and_keep(word))
            ]
            rows.append((tokens + [0] * LENGTH)[:LENGTH])
        inputs = torch.tensor(rows).to(DEVICE)
        topics = head(encoder(embedding(inputs)).mean(1)).argmax(-1)
        steps += 1
    assert len(topics) == BATCH
