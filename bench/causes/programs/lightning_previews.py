"""A Lightning module that restores images; the cause saves a preview of each batch as a PNG.

The fix saves one in 16 steps.
"""
# causes: idle
import tempfile

import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.utils import save_image
from turns import Turns

BATCH, SIZE, WIDTH, SHOWN, PERIOD = 16, 256, 48, 3, 16


class Images(Dataset[torch.Tensor]):
    """The same image again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.image = torch.rand(3, SIZE, SIZE)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.image


class Restorer(lightning.LightningModule):
    """Convolutions that take noise out of images."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.steps, self.path = turns, 0, f"{tempfile.mkdtemp()}/preview.png"
        layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 3, padding=1), nn.GELU()]
        for _ in range(6):
            layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.GELU()]
        layers.append(nn.Conv2d(WIDTH, 3, 3, padding=1))
        self.model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
        turns.step()

    def training_step(self, images: torch.Tensor, _: int) -> torch.Tensor:
        self.steps += 1
        images = images.contiguous(memory_format=torch.channels_last)
        noisy = images + 0.1 * torch.randn_like(images)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            restored = noisy + self.model(noisy)
        if self.turns.planted or self.steps % PERIOD == 0:
            save_image(restored[:SHOWN].detach().float(), self.path)
        return nn.functional.mse_loss(restored.float(), images)

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    loader = DataLoader(Images(), BATCH, num_workers=6, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Restorer(turns), loader)
