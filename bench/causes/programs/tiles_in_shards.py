"""Satellite tiles turned to patch vectors by a ViT (timm); the cause writes each eighth batch to a file, and waits.

It writes the vectors of eight batches at once, as a shard. The fix leaves that to a thread.
"""
# causes: idle
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import timm
import torch
import torch.nn.functional as F
from parts import DEVICE, use_gpu
from turns import Turns

TILES, SIDE, GRID, KEPT_GRID, WIDTH = 192, 224, 14, 7, 768
STEPS_PER_SHARD = 8
SHARD_FILES = 4
STORED_BATCHES = 3


class ShardWriter:
    """Collects vectors, and writes them when a shard is full."""

    def __init__(self, folder: Path, turns: Turns, thread: ThreadPoolExecutor) -> None:
        self.folder, self.turns, self.thread = folder, turns, thread
        self.vectors: list[np.ndarray] = []
        self.shards = 0
        self.writing: Future | None = None

    def add(self, vectors: np.ndarray) -> None:
        self.vectors.append(vectors)
        if len(self.vectors) < STEPS_PER_SHARD:
            return
        path = self.folder / f"vectors-{self.shards % SHARD_FILES:05d}.npy"
        self.shards += 1
        full, self.vectors = self.vectors, []
        if self.turns.planted:
            write_shard(path, full)
            return
        if self.writing is not None:
            self.writing.result()
        self.writing = self.thread.submit(write_shard, path, full)


def write_shard(path: Path, vectors: list[np.ndarray]) -> None:
    with path.open("wb") as file:
        np.save(file, np.concatenate(vectors))


def embed(model: torch.nn.Module, tiles: torch.Tensor) -> np.ndarray:
    """A vector for each square of 2 x 2 patches."""
    pixels = tiles.to(DEVICE, non_blocking=True).to(torch.bfloat16).div_(127.5).sub_(1)
    patches = model.forward_features(pixels)[:, -GRID * GRID :]
    maps = patches.transpose(1, 2).reshape(TILES, WIDTH, GRID, GRID)
    return F.adaptive_avg_pool2d(maps, KEPT_GRID).half().cpu().numpy()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = STEPS_PER_SHARD
    model = timm.create_model("vit_base_patch16_224", pretrained=False, num_classes=0)
    model = model.to(DEVICE, torch.bfloat16).eval()
    shape = (STORED_BATCHES, TILES, 3, SIDE, SIDE)
    tiles = torch.randint(256, shape, dtype=torch.uint8).pin_memory()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        writer = ShardWriter(Path(folder), turns, thread)
        step = 0
        while turns.step():
            writer.add(embed(model, tiles[step % STORED_BATCHES]))
            step += 1
