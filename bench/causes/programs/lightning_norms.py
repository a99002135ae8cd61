"""A Lightning module; the cause keeps the norm of each gradient as a number of Python."""
# causes: synchronization
import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import image_loss, use_gpu
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIZE = 64, 160


class Images(Dataset[tuple[torch.Tensor, int]]):
    """The same image again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.image = torch.rand(3, SIZE, SIZE)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.image, index % 1000


class Classifier(lightning.LightningModule):
    """A DenseNet that may watch its gradients."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model, self.turns = torchvision.models.densenet121(), turns
        self.norms: dict[str, float] = {}
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        images, labels = batch
        return image_loss(self.model, images, labels)

    def on_before_optimizer_step(self, _: torch.optim.Optimizer) -> None:
        for name, weight in self.model.named_parameters():
            norm = weight.grad.norm()
            if self.turns.planted:
                self.norms[name] = norm.item()

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Images(), BATCH, num_workers=8, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(turns), loader)
