"""DeepLabV3 (torchvision) finds crops in photographs of fields, under Lightning; the cause is a loader without `pin_memory`.

The fix sets it. Workers are enough in both.
"""
# causes: pageable_copy
import lightning_or_pytorch as pl
import torch
import torch.nn.functional as F
from parts import repeat, use_gpu
from torch.utils.data import DataLoader, Dataset
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large
from turns import Turns

NUM_CLASSES = 9
BATCH_SIZE = 14
SIZE = 448


class FieldDataset(Dataset):
    """Photographs, flipped by chance, and the crop at each pixel."""

    def __init__(self, count=24):
        self.images = torch.rand(count, 3, SIZE, SIZE)
        self.masks = torch.randint(NUM_CLASSES, (count, SIZE, SIZE), dtype=torch.uint8)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, idx):
        image, mask = self.images[idx % len(self.images)], self.masks[idx % len(self.masks)]
        if idx % 2:
            image, mask = image.flip(-1), mask.flip(-1)
        return image, mask


class FieldSegmenter(pl.LightningModule):
    """DeepLabV3 with a cross entropy."""

    def __init__(self):
        super().__init__()
        self.net = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=NUM_CLASSES)

    def training_step(self, batch, batch_idx):
        images, masks = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = self.net(images)["out"]
        return F.cross_entropy(out.float(), masks.long())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


class StepCounter(pl.Callback):
    """Ends each step of the turns."""

    def __init__(self, turns):
        self.turns = turns

    def on_train_batch_end(self, trainer, *_):
        if not self.turns.step():
            trainer.should_stop = True


class TrainBatches:
    """Batches of whichever loader it is the turn of."""

    def __init__(self, turns):
        dataset = FieldDataset()
        self.turns = turns
        self.plain = repeat(DataLoader(dataset, BATCH_SIZE, num_workers=6))
        self.pinned = repeat(DataLoader(dataset, BATCH_SIZE, num_workers=6, pin_memory=True))

    def __iter__(self):
        while True:
            yield next(self.plain if self.turns.planted else self.pinned)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    trainer = pl.Trainer(
        max_steps=1_000_000, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[StepCounter(turns)],
    )
    trainer.fit(FieldSegmenter(), TrainBatches(turns))
