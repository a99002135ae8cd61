"""Birds told by their song under Lightning; the cause makes each spectrogram in the main process.

The fix loads the sound alone and makes the spectrograms of a batch on the GPU.
"""
# causes: idle
import lightning_or_pytorch as lightning
import torch
import torchvision
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SAMPLES, WINDOW, HOP, BANDS, CLASSES, SONGS = 48, 64000, 1024, 320, 128, 200, 64


def make_spectrogram(
    sound: torch.Tensor, window: torch.Tensor, bands: torch.Tensor
) -> torch.Tensor:
    """The logarithm of the power in each band."""
    waves = torch.stft(sound, WINDOW, HOP, window=window, return_complex=True)
    return (bands @ waves.abs().square()).clamp_min(1e-6).log()


class Songs(Dataset[tuple[torch.Tensor, int]]):
    """Two seconds of sound each, as spectrograms with the cause."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.sounds = 0.1 * torch.randn(SONGS, SAMPLES)
        self.window, self.bands = torch.hann_window(WINDOW), torch.rand(BANDS, WINDOW // 2 + 1)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sound = self.sounds[index % SONGS]
        if self.turns.planted:
            sound = make_spectrogram(sound, self.window, self.bands)
        return sound, index % CLASSES


class Classifier(lightning.LightningModule):
    """A ResNet of spectrograms."""

    def __init__(self, turns: Turns, songs: Songs) -> None:
        super().__init__()
        self.turns = turns
        self.model = torchvision.models.resnet50(num_classes=CLASSES)
        self.model.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
        self.model.to(memory_format=torch.channels_last)
        self.register_buffer("window", songs.window)
        self.register_buffer("bands", songs.bands)
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        sounds, birds = batch
        if sounds.dim() == 2:
            sounds = make_spectrogram(sounds, self.window, self.bands)
        images = sounds[:, None].contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(images)
        return nn.functional.cross_entropy(scores.float(), birds)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3, momentum=0.9, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    songs = Songs(turns)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Classifier(turns, songs), DataLoader(songs, BATCH, num_workers=0, pin_memory=True))
