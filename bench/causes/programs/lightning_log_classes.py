"""Species in photographs under Lightning; the cause logs the accuracy of each class in each step.

The fix logs them in each 20th step.
"""
# causes: host_bound, idle
import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50
from turns import Turns

BATCH, SIDE, CLASSES, PERIOD, WORKERS = 96, 160, 100, 20, 6

Photo = tuple[torch.Tensor, int]


class Photos(Dataset[Photo]):
    """The same photographs again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.images = torch.randn(32, 3, SIDE, SIDE)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> Photo:
        return self.images[index % 32], index * 7 % CLASSES


class Species(lightning.LightningModule):
    """A ResNet-50 and its accuracies."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, resnet50(num_classes=CLASSES)
        turns.step()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(images.to(memory_format=torch.channels_last))
        if self.turns.planted or index % PERIOD == 0:
            self.log_accuracies(logits.argmax(1) == labels, labels)
        return nn.functional.cross_entropy(logits.float(), labels)

    def log_accuracies(self, is_right: torch.Tensor, labels: torch.Tensor) -> None:
        ones = torch.zeros(CLASSES, device=labels.device)
        right = ones.index_add(0, labels, is_right.float())
        shares = right / ones.index_add(0, labels, torch.ones_like(is_right, dtype=torch.float))
        for number, share in enumerate(shares.nan_to_num()):
            self.log(f"accuracy/{number}", share, on_step=True, on_epoch=False)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        self.model.to(memory_format=torch.channels_last)
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    loader = DataLoader(Photos(), BATCH, num_workers=WORKERS, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Species(turns), loader)
