"""Handwriting told from the strokes of a pen, with Accelerate; the cause adds up gradients of small batches.

All samples of an update fit into memory at once, as with the fix.
"""
# causes: host_bound
import torch
from accelerate import Accelerator
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SMALL, POINTS, WIDTH, LAYERS, HEADS, WRITERS, STORED = 60, 10, 256, 512, 8, 8, 300, 960


class Strokes(nn.Module):
    """Moves of a pen to its writer."""

    def __init__(self) -> None:
        super().__init__()
        self.moves, self.places = nn.Linear(5, WIDTH), nn.Embedding(POINTS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WRITERS)

    def forward(self, moves: torch.Tensor) -> torch.Tensor:
        x = self.encoder(self.moves(moves) + self.places.weight)
        return self.head(self.norm(x).mean(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = Strokes()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    criterion = nn.CrossEntropyLoss()
    moves = torch.randn(STORED, POINTS, 5, device=DEVICE)
    writers = torch.randint(WRITERS, (STORED,), device=DEVICE)
    first = 0
    while turns.step():
        part = slice(first, first + BATCH)
        first = (first + BATCH) % STORED
        size = SMALL if turns.planted else BATCH
        for shown, wanted in zip(moves[part].split(size), writers[part].split(size)):
            loss = criterion(model(shown), wanted) * (size / BATCH)
            accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
