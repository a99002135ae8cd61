"""Fraud in payments by a network of tables; the cause copies each column to the GPU by itself.

The fix copies two tensors, one of categories and one of numbers.
"""
# causes: many_small_copies, synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

CATEGORIES, NUMBERS, BATCH, WORDS, SMALL, WIDTH, LAYERS, STORED = 80, 90, 4096, 1000, 16, 1024, 6, 32

Batch = dict[str, torch.Tensor]


class Network(nn.Module):
    """Embeddings of categories and numbers, then a network with shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(CATEGORIES * WORDS, SMALL)
        self.register_buffer("starts", torch.arange(CATEGORIES) * WORDS)
        self.first = nn.Linear(CATEGORIES * SMALL + NUMBERS, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                          nn.Dropout(0.1), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(LAYERS)
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        x = torch.cat([self.words(categories + self.starts).flatten(1), numbers], 1)
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x).squeeze(1)


def draw_batch() -> Batch:
    """A batch as a reader of column files gives it."""
    batch = {f"c{number}": torch.randint(WORDS, (BATCH,)) for number in range(CATEGORIES)}
    batch |= {f"n{number}": torch.randn(BATCH) for number in range(NUMBERS)}
    return batch | {"label": torch.randint(2, (BATCH,)).float()}


def join(batch: Batch) -> Batch:
    """The batch as two tables and its labels, in pinned memory."""
    tables = {
        "categories": torch.stack([batch[f"c{number}"] for number in range(CATEGORIES)], 1),
        "numbers": torch.stack([batch[f"n{number}"] for number in range(NUMBERS)], 1),
        "label": batch["label"],
    }
    return {name: table.pin_memory() for name, table in tables.items()}


def run(turns: Turns) -> None:
    use_gpu(turns)
    batches = [draw_batch() for _ in range(STORED)]
    joined = [join(batch) for batch in batches]
    model = Network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    steps = 0
    while turns.step():
        if turns.planted:
            batch = {name: column.to(DEVICE) for name, column in batches[steps % STORED].items()}
            batch = {
                "categories": torch.stack([batch[f"c{number}"] for number in range(CATEGORIES)], 1),
                "numbers": torch.stack([batch[f"n{number}"] for number in range(NUMBERS)], 1),
                "label": batch["label"],
            }
        else:
            batch = {
                name: table.to(DEVICE, non_blocking=True)
                for name, table in joined[steps % STORED].items()
            }
        steps += 1
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = model(batch["categories"], batch["numbers"])
        loss = nn.functional.binary_cross_entropy_with_logits(guesses.float(), batch["label"])
        update(optimizer, loss)
