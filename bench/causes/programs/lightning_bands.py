"""Land cover by Lightning; the cause scales the bands of satellite images in the main process.

The fix copies the sensor's 16-bit numbers and scales them on the GPU.
"""
# causes: idle, pageable_copy
import lightning_or_pytorch as lightning
import numpy as np
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BANDS, SCENE, CROP, BATCH, WIDTH, LAYERS, CLASSES = 12, 2048, 192, 32, 256, 12, 10

Sample = tuple[torch.Tensor, torch.Tensor]


class Crops(Dataset[Sample]):
    """Random crops of a scene, mirrored at random."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.random = turns, np.random.default_rng(0)
        self.scene = self.random.integers(10_000, size=(BANDS, SCENE, SCENE), dtype=np.int16)
        self.cover = self.random.integers(CLASSES, size=(SCENE, SCENE), dtype=np.uint8)
        self.means = np.linspace(1000, 4000, BANDS, dtype=np.float32)[:, None, None]
        self.scales = np.linspace(500, 2000, BANDS, dtype=np.float32)[:, None, None]

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> Sample:
        y, x = self.random.integers(SCENE - CROP, size=2)
        bands = self.scene[:, y : y + CROP, x : x + CROP]
        cover = self.cover[y : y + CROP, x : x + CROP]
        if self.random.random() < 0.5:
            bands, cover = bands[..., ::-1], cover[..., ::-1]
        if self.turns.planted:
            bands = np.clip((bands.astype(np.float32) - self.means) / self.scales, -4, 4)
        return torch.from_numpy(bands.copy()), torch.from_numpy(cover.copy())


class Mapper(lightning.LightningModule):
    """A convolutional network that gives each place its cover."""

    def __init__(self, turns: Turns, crops: Crops) -> None:
        super().__init__()
        self.turns = turns
        layers: list[nn.Module] = [nn.Conv2d(BANDS, WIDTH, 2, stride=2)]
        for _ in range(LAYERS):
            layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU()]
        layers += [nn.Conv2d(WIDTH, CLASSES * 4, 1), nn.PixelShuffle(2)]
        self.model = nn.Sequential(*layers)
        self.register_buffer("means", torch.from_numpy(crops.means))
        self.register_buffer("scales", torch.from_numpy(crops.scales))

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        bands, cover = batch
        if not bands.is_floating_point():
            bands = ((bands - self.means) / self.scales).clamp(-4, 4)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(bands)
        return nn.functional.cross_entropy(scores.float(), cover.long())

    def on_train_batch_end(self, *_) -> None:  # type: ignore[no-untyped-def]
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    crops = Crops(turns)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Mapper(turns, crops), DataLoader(crops, BATCH, num_workers=0, pin_memory=True))
