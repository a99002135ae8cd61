"""Heads of words in sentences found by a biaffine parser; the cause copies each sentence's tensors by themselves.

The words, tags and heads of a sentence are three small tensors; they are padded on the GPU. The fix
pads them on the CPU and copies three pinned tensors for the batch.
"""

# causes: many_small_copies, synchronization, host_bound
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from turns import Turns

SENTENCES, SHORTEST, LONGEST, WORDS, TAGS, WIDTH, HEADS, LAYERS = 256, 8, 48, 16384, 18, 768, 12, 8
ARC, BATCHES = 512, 16
PADDING = (0, 0, -100)

Sentence = tuple[torch.Tensor, ...]


class Parser(nn.Module):
    """Words and tags to a score for each pair of a word and its head."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.tags = nn.Embedding(WORDS, WIDTH), nn.Embedding(TAGS, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.word, self.head = nn.Linear(WIDTH, ARC), nn.Linear(WIDTH, ARC)
        self.pair = nn.Parameter(0.02 * torch.randn(ARC, ARC))

    def forward(self, words: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.tags(tags) + self.places(places)
        x = self.layers(x, src_key_padding_mask=words == 0)
        word, head = self.word(x).relu(), self.head(x).relu()
        return (word @ self.pair) @ head.transpose(1, 2)


def draw_sentence(random: np.random.Generator) -> Sentence:
    length = random.integers(SHORTEST, LONGEST + 1)
    drawn = ((1, WORDS), (1, TAGS), (0, length))
    return tuple(torch.from_numpy(random.integers(*limits, length)) for limits in drawn)


def pad(sentences: list[Sentence]) -> list[torch.Tensor]:
    columns = zip(*sentences, strict=True)
    return [
        pad_sequence(list(column), batch_first=True, padding_value=value)
        for column, value in zip(columns, PADDING, strict=True)
    ]


def pad_on_gpu(sentences: list[Sentence]) -> list[torch.Tensor]:
    return pad([tuple(part.to(DEVICE) for part in sentence) for sentence in sentences])


def pad_on_cpu(sentences: list[Sentence]) -> list[torch.Tensor]:
    return [part.pin_memory().to(DEVICE, non_blocking=True) for part in pad(sentences)]


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Parser().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    random = np.random.default_rng(0)
    batches = [[draw_sentence(random) for _ in range(SENTENCES)] for _ in range(BATCHES)]
    steps = 0
    while turns.step():
        sentences = batches[steps % BATCHES]
        steps += 1
        words, tags, heads = (pad_on_gpu if turns.planted else pad_on_cpu)(sentences)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(words, tags)
        loss = nn.functional.cross_entropy(scores.float().flatten(0, 1), heads.flatten())
        update(optimizer, loss)
