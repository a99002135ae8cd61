"""Streets segmented under Lightning; the cause keeps each class's overlap as a number of Python.

The fix keeps the same counts on the GPU.
"""
# causes: synchronization
import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, SIZE, CLASSES, WIDTH, PHOTOS = 16, 256, 21, 64, 32


class Streets(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Photographs and the class of each pixel, ready in memory."""

    def __init__(self) -> None:
        self.photos = torch.rand(PHOTOS, 3, SIZE, SIZE)
        self.classes = torch.randint(CLASSES, (PHOTOS, SIZE, SIZE))

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.photos[index % PHOTOS], self.classes[index % PHOTOS]


def convolve(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (inputs, outputs, outputs):
        layers += [nn.Conv2d(width, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Scores of the classes at each pixel."""

    def __init__(self) -> None:
        super().__init__()
        widths = (WIDTH, 2 * WIDTH, 4 * WIDTH, 8 * WIDTH)
        pairs = list(zip((3, *widths[:-1]), widths, strict=True))
        self.down = nn.ModuleList(convolve(*pair) for pair in pairs)
        self.rise = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[:0:-1])
        self.up = nn.ModuleList(convolve(2 * a, a) for a, _ in pairs[:0:-1])
        self.head = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for level, block in enumerate(self.down):
            x = block(nn.functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        for rise, block, beside in zip(self.rise, self.up, kept[-2::-1], strict=True):
            x = block(torch.cat([rise(x), beside], 1))
        return self.head(x)


class Segmenter(lightning.LightningModule):
    """A U-Net that counts how its classes overlap with the true ones."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.model = turns, UNet()
        self.shared: list[torch.Tensor | float] = [0.0] * CLASSES
        self.either: list[torch.Tensor | float] = [0.0] * CLASSES
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        photos, classes = batch
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = self.model(photos)
        self.count(scores.argmax(1), classes)
        return nn.functional.cross_entropy(scores.float(), classes)

    def count(self, found: torch.Tensor, classes: torch.Tensor) -> None:
        """Add the pixels in both masks of a class, and in either of them."""
        for kind in range(CLASSES):
            mine, true = found == kind, classes == kind
            both, any_ = (mine & true).sum(), (mine | true).sum()
            self.shared[kind] += both.item() if self.turns.planted else both
            self.either[kind] += any_.item() if self.turns.planted else any_

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Streets(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Segmenter(turns), loader)
