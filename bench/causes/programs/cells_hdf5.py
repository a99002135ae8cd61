"""A transformer over the genes of cells; the cause reads each cell from a compressed HDF5 file.

The fix reads the file into memory before the training.
"""
# causes: idle
import tempfile
from pathlib import Path

import h5py
import numpy as np
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

CELLS, GENES, SEEN, BATCH, WIDTH, LAYERS, KINDS = 8192, 2000, 800, 64, 512, 4, 40


def write_cells(path: Path) -> None:
    """Counts of genes as sequencing finds them: most are 0."""
    random = np.random.default_rng(0)
    rates = random.gamma(0.3, 2.0, GENES)
    with h5py.File(path, "w") as file:
        counts = file.create_dataset(
            "X", (CELLS, GENES), np.float32, chunks=(24, GENES), compression="gzip"
        )
        for first in range(0, CELLS, 1024):
            counts[first : first + 1024] = random.poisson(rates, (1024, GENES))
        file["kind"] = random.integers(0, KINDS, CELLS)


class CellModel(nn.Module):
    """Genes are words, and their counts are added to them."""

    def __init__(self) -> None:
        super().__init__()
        self.genes, self.counts = nn.Embedding(SEEN, WIDTH), nn.Linear(1, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 8, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, KINDS)

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        x = self.genes.weight + self.counts(counts.log1p().unsqueeze(-1))
        return self.head(self.encoder(x).mean(1))


def gather(counts: "h5py.Dataset | np.ndarray", cells: np.ndarray) -> torch.Tensor:
    """The first genes of these cells, in pinned memory."""
    return torch.from_numpy(np.stack([counts[cell][:SEEN] for cell in cells])).pin_memory()


def run(turns: Turns) -> None:
    use_gpu(turns)
    random = np.random.default_rng(1)
    model = CellModel().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cells.h5"
        write_cells(path)
        with h5py.File(path) as file:
            stored, kept, kinds = file["X"], file["X"][:], torch.from_numpy(file["kind"][:])
            while turns.step():
                cells = random.integers(0, CELLS, BATCH)
                counts = gather(stored if turns.planted else kept, cells)
                labels = kinds[torch.from_numpy(cells)].pin_memory()
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    logits = model(counts.to(DEVICE, non_blocking=True))
                wanted = labels.to(DEVICE, non_blocking=True)
                update(optimizer, nn.functional.cross_entropy(logits.float(), wanted))
