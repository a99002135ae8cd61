"""Lightning grades planks with a wide ResNet in bf16; the cause is that pictures come in NCHW.

The fix gives the pictures channels-last strides, which the convolutions keep.
"""

# causes: channels_first
import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import DEVICE, image_loss, use_gpu
from torch.utils.data import DataLoader, TensorDataset
from turns import Turns

BATCH, SIZE, GRADES = 96, 224, 6


class Grader(lightning.LightningModule):
    """A classifier of pictures that are on the GPU already; the loader draws their grades."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model = torchvision.models.wide_resnet50_2(num_classes=GRADES)
        self.pictures = torch.randn(BATCH, 3, SIZE, SIZE, device=DEVICE)
        self.turns = turns
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        pictures = self.pictures.flip(3)
        if not self.turns.planted:
            pictures = pictures.contiguous(memory_format=torch.channels_last)
        return image_loss(self.model, pictures, batch[0])

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3, momentum=0.9)


def run(turns: Turns) -> None:
    use_gpu(turns)
    grades = TensorDataset(torch.randint(GRADES, (BATCH * 10_000,)))
    loader = DataLoader(grades, BATCH, num_workers=1, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=100, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Grader(turns), loader)
