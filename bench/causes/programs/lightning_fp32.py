"""Lightning on clips of video; the cause keeps its 3-D convolutions off the tensor cores."""
# causes: no_tensor_cores
import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, FRAMES, SIZE = 4, 16, 112


class Clips(Dataset[tuple[torch.Tensor, int]]):
    """The same clip again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.clip = torch.rand(3, FRAMES, SIZE, SIZE)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.clip, index % 400


class Classifier(lightning.LightningModule):
    """A ResNet of 3-D convolutions in fp32."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model, self.turns = torchvision.models.video.r3d_18(), turns
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        torch.backends.cudnn.allow_tf32 = not self.turns.planted
        clips, labels = batch
        return nn.functional.cross_entropy(self.model(clips), labels)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Clips(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(turns), loader)
