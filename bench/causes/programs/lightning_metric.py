"""A Lightning module; the cause computes a metric on the CPU for each batch."""
# causes: idle, synchronization
import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import image_loss, use_gpu
from torch.utils.data import DataLoader, Dataset
from turns import Turns


class Images(Dataset[tuple[torch.Tensor, int]]):
    """The same image again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.image = torch.rand(3, 160, 160)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.image, index % 1000


class Classifier(lightning.LightningModule):
    """EfficientNet with a confusion count."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model, self.turns = torchvision.models.efficientnet_b0(), turns
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        loss = image_loss(self.model, images, labels)
        if self.turns.planted:
            with torch.no_grad():
                scores = self.model.classifier(torch.rand(4096, 1280, device=self.device))
            torch.sort(scores.cpu(), dim=1)
        return loss

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Images(), 128, num_workers=6, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(turns), loader)
