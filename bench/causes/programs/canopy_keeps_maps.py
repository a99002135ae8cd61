"""Heights of trees in aerial photographs under Lightning (MobileNetV3 of timm); the cause keeps each batch's maps on the CPU.

At the end of an epoch it makes errors of them. The fix adds the errors up on the GPU.
"""
# causes: pageable_copy, synchronization
from collections import deque

import lightning_or_pytorch as lightning
import timm
import torch
import torch.nn.functional as F
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIDE, WIDTH, STORED, KEPT = 20, 384, 192, 40, 4
SHARES = (0.1, 0.5, 0.9)


class Photographs(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Photographs as bytes, and the heights of a lidar's flight."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (STORED, 3, SIDE, SIDE), dtype=torch.uint8)
        self.heights = (40 * torch.rand(STORED, SIDE, SIDE)).half()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index % STORED], self.heights[index % STORED]


class Network(nn.Module):
    """A pyramid of features to a map for each quantile of the height."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = timm.create_model(
            "mobilenetv3_large_100", pretrained=False, features_only=True
        )
        channels = self.encoder.feature_info.channels()
        self.sides = nn.ModuleList(nn.Conv2d(count, WIDTH, 1) for count in channels)
        self.joins = nn.ModuleList(
            nn.Sequential(nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU())
            for _ in channels
        )
        self.head = nn.Conv2d(WIDTH, len(SHARES), 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.encoder(images)
        x = self.joins[-1](self.sides[-1](features[-1]))
        for place in reversed(range(len(features) - 1)):
            x = F.interpolate(x, size=features[place].shape[-2:], mode="nearest")
            x = self.joins[place](x + self.sides[place](features[place]))
        return F.interpolate(self.head(x).float(), size=images.shape[-2:], mode="bilinear")


class Canopy(lightning.LightningModule):
    """Learns the quantiles by the pinball loss."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, Network().to(memory_format=torch.channels_last)
        self.register_buffer("shares", torch.tensor(SHARES).view(1, -1, 1, 1))
        self.register_buffer("errors", torch.zeros(2, len(SHARES), dtype=torch.float64))
        # The last batches only: an epoch's would not fit.
        self.maps: deque[tuple[torch.Tensor, torch.Tensor]] = deque(maxlen=KEPT)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, heights = batch
        images = (images.float() / 255 - 0.45) / 0.22
        with torch.autocast("cuda", dtype=torch.bfloat16):
            maps = self.model(images.contiguous(memory_format=torch.channels_last))
        heights = heights[:, None].float()
        self.keep(maps.detach(), heights)
        below = heights - maps
        return torch.maximum(self.shares * below, (self.shares - 1) * below).mean()

    def keep(self, maps: torch.Tensor, heights: torch.Tensor) -> None:
        """What the errors of the epoch need."""
        if self.turns.planted:
            self.maps.append((maps.cpu(), heights.cpu()))
        else:
            off = maps - heights
            sums = torch.stack([off.abs().mean((0, 2, 3)), off.square().mean((0, 2, 3))])
            self.errors += sums

    def on_train_epoch_end(self) -> None:
        for maps, heights in self.maps:
            off = maps - heights
            sums = torch.stack([off.abs().mean((0, 2, 3)), off.square().mean((0, 2, 3))])
            self.errors += sums.to(self.errors)
        self.maps.clear()

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    loader = DataLoader(Photographs(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Canopy(turns), loader)
