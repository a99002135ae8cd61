"""Lightning on calls of whales; the cause is torchaudio's mel spectrogram of each batch on the CPU.

The fix moves the waves to the GPU and computes the spectrogram there.
"""

# causes: idle
import lightning_or_pytorch as lightning
import torch
import torchaudio
import torchvision
from parts import image_loss, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, RATE, SECONDS, CALLS = 32, 16000, 2, 40


class Calls(Dataset[tuple[torch.Tensor, int]]):
    """Waves of hydrophones, in memory."""

    def __init__(self) -> None:
        self.waves = torch.randn(64, RATE * SECONDS)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.waves[index % 64], index % CALLS


class Listener(lightning.LightningModule):
    """A ResNet of mel spectrograms."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.model, self.turns = torchvision.models.resnet50(num_classes=CALLS), turns
        options = {"n_fft": 1024, "hop_length": 160, "n_mels": 128}
        self.mels = torchaudio.transforms.MelSpectrogram(RATE, **options)
        # In a tuple, Lightning does not move it to the GPU.
        self.host_mels = (torchaudio.transforms.MelSpectrogram(RATE, **options),)
        turns.step()

    def transfer_batch_to_device(
        self, batch: list[torch.Tensor], device: torch.device, _: int
    ) -> list[torch.Tensor]:
        waves, labels = batch
        if self.turns.planted:
            pictures = self.draw(waves, self.host_mels[0]).to(device)
        else:
            pictures = self.draw(waves.to(device, non_blocking=True), self.mels)
        return [pictures, labels.to(device, non_blocking=True)]

    def draw(self, waves: torch.Tensor, mels: nn.Module) -> torch.Tensor:
        with torch.no_grad():
            return (mels(waves) + 1e-6).log()[:, None].repeat(1, 3, 1, 1)

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        return image_loss(self.model, *batch)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Calls(), BATCH, num_workers=2, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Listener(turns), loader)
