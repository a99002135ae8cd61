"""Things told from points on their surfaces, under Lightning; the cause draws triangles of a mesh by `choice` with areas.

It adds up the areas of all triangles for each cloud of points anew. The fix keeps these sums, and
finds the same triangles in them. Both draw in the main process.
"""
# causes: idle
from collections.abc import Iterator
from typing import Any

import lightning_or_pytorch as lightning
import numpy as np
import torch
from parts import repeat, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, POINTS, MESHES, TRIANGLES, CLASSES = 24, 1024, 16, 160_000, 40
WIDTH, HEADS, LAYERS = 640, 10, 7


class Mesh:
    """Triangles with their areas and the sums of these."""

    def __init__(self, random: np.random.Generator) -> None:
        corners = random.standard_normal((TRIANGLES, 1, 3), np.float32)
        self.corners = corners + 0.01 * random.standard_normal((TRIANGLES, 3, 3), np.float32)
        sides = self.corners[:, 1:] - self.corners[:, :1]
        crossed = np.cross(sides[:, 0], sides[:, 1])
        self.areas = np.linalg.norm(crossed, axis=1).astype(np.float64) / 2
        sums = (self.areas / self.areas.sum()).cumsum()
        self.sums = sums / sums[-1]

    def choose(self, random: np.random.Generator) -> np.ndarray:
        return random.choice(TRIANGLES, POINTS, p=self.areas / self.areas.sum())

    def look_up(self, random: np.random.Generator) -> np.ndarray:
        """What `choice` finds by its own sums."""
        return self.sums.searchsorted(random.random(POINTS), side="right")


class Clouds(Dataset[tuple[torch.Tensor, int]]):
    """Points spread evenly over a mesh."""

    def __init__(self, meshes: list[Mesh], anew: bool) -> None:
        self.meshes, self.anew = meshes, anew

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        random, mesh = np.random.default_rng(index), self.meshes[index % MESHES]
        chosen = mesh.choose(random) if self.anew else mesh.look_up(random)
        a, b, c = mesh.corners[chosen].transpose(1, 0, 2)
        far = np.sqrt(random.random((POINTS, 1), np.float32))
        turn = random.random((POINTS, 1), np.float32)
        points = (1 - far) * a + far * (1 - turn) * b + far * turn * c
        return torch.from_numpy(points), index % CLASSES


class Batches:
    """Batches of one loader with the cause, of another one else."""

    def __init__(self, turns: Turns) -> None:
        random = np.random.default_rng(0)
        meshes = [Mesh(random) for _ in range(MESHES)]
        self.turns = turns
        self.chosen, self.found = (self.make_loader(Clouds(meshes, anew)) for anew in (True, False))

    def make_loader(self, clouds: Clouds) -> Iterator[Any]:
        return repeat(DataLoader(clouds, BATCH, num_workers=0, pin_memory=True))

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield next(self.chosen if self.turns.planted else self.found)


class Things(lightning.LightningModule):
    """A transformer over points."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        self.embed = nn.Sequential(nn.Linear(3, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(
            layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False
        )
        self.head = nn.Linear(WIDTH, CLASSES)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        points, kinds = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.head(self.encoder(self.embed(points)).amax(1))
        return nn.functional.cross_entropy(scores.float(), kinds)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    trainer = lightning.Trainer(
        max_steps=1_000_000, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Things(turns), Batches(turns))
