"""Persons told apart by their photographs under Lightning; the cause picks semi-hard triplets by NumPy, pair by pair.

FaceNet's code picks them so. The fix finds the same ones on the GPU, for all pairs at once.
"""
# causes: idle, pageable_copy
import lightning_or_pytorch as lightning
import numpy as np
import timm
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

PERSONS, PHOTOS, HEIGHT, BREADTH, WIDTH, MARGIN, STORED = 64, 4, 192, 96, 256, 0.3, 512
BATCH = PERSONS * PHOTOS


class Photographs(Dataset[tuple[torch.Tensor, int]]):
    """Four photographs of a person, then four of the next one, ready in memory."""

    def __init__(self) -> None:
        self.photos = torch.randint(256, (STORED, 3, HEIGHT, BREADTH), dtype=torch.uint8)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.photos[index % STORED], index // PHOTOS % PERSONS


def pick_by_pairs(found: torch.Tensor) -> torch.Tensor:
    """For each pair of one person, the nearest other one beyond it, else the farthest."""
    points = found.detach().float().cpu().numpy()
    squares = (points**2).sum(1)
    far = squares[:, None] + squares[None, :] - 2 * points @ points.T
    triplets = []
    for first in range(BATCH):
        begin = first // PHOTOS * PHOTOS
        others = np.r_[0:begin, begin + PHOTOS : BATCH]
        for second in range(begin, begin + PHOTOS):
            if first == second:
                continue
            beyond = others[far[first, others] > far[first, second]]
            if len(beyond):
                third = beyond[far[first, beyond].argmin()]
            else:
                third = others[far[first, others].argmax()]
            triplets.append((first, second, int(third)))
    return torch.tensor(triplets).to(found.device)


def pick_at_once(found: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """The same triplets for all of these pairs."""
    points = found.detach().float()
    squares = points.square().sum(1)
    far = squares[:, None] + squares[None, :] - 2 * points @ points.T
    first, second = pairs.unbind(1)
    of_first = far[first]
    numbers = torch.arange(BATCH, device=found.device) // PHOTOS
    same = numbers[None, :] == numbers[first][:, None]
    nearer = of_first <= far[first, second][:, None]
    beyond = of_first.masked_fill(same | nearer, torch.inf)
    farthest = of_first.masked_fill(same, -torch.inf).argmax(1)
    third = torch.where(beyond.amin(1).isinf(), farthest, beyond.argmin(1))
    return torch.stack([first, second, third], 1)


class Tracker(lightning.LightningModule):
    """A ResNet that learns from triplets."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        self.model = timm.create_model("resnet18", num_classes=WIDTH)
        self.model = self.model.to(memory_format=torch.channels_last)
        places = torch.cartesian_prod(torch.arange(BATCH), torch.arange(PHOTOS))
        seconds = places[:, 0] // PHOTOS * PHOTOS + places[:, 1]
        pairs = torch.stack([places[:, 0], seconds], 1)
        self.register_buffer("pairs", pairs[pairs[:, 0] != pairs[:, 1]])
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        photos = batch[0].contiguous(memory_format=torch.channels_last) / 255
        found = nn.functional.normalize(self.model(photos).float())
        triplets = pick_by_pairs(found) if self.turns.planted else pick_at_once(found, self.pairs)
        return nn.functional.triplet_margin_loss(
            *(found[numbers] for numbers in triplets.unbind(1)), margin=MARGIN
        )

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Photographs(), BATCH, num_workers=6, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Tracker(turns), loader)
