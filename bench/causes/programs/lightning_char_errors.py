"""Typed lines read under Lightning; the cause counts the wrong letters of each batch on the CPU.

The fix counts those of each 20th batch.
"""
# causes: idle, synchronization
import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.functional.text import char_error_rate
from turns import Turns

BATCH, COLUMNS, ROWS, WIDTH, LAYERS, LETTERS, LONG, PERIOD = 20, 1920, 48, 512, 10, 28, 60, 20
ALPHABET = " abcdefghijklmnopqrstuvwxyz."

Line = tuple[torch.Tensor, torch.Tensor]


class Lines(Dataset[Line]):
    """Scanned lines and their letters, ready on the CPU."""

    def __init__(self) -> None:
        self.scans = torch.randn(32, ROWS, COLUMNS)
        self.letters = torch.randint(LETTERS, (32, LONG))

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> Line:
        return self.scans[index % 32], self.letters[index * 7 % 32]


def spell(numbers: list[int]) -> str:
    return "".join(ALPHABET[number] for number in numbers)


class Reader(lightning.LightningModule):
    """Convolutions, a transformer, and the mean of the columns of each letter."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        self.shrink = nn.Sequential(
            nn.Conv1d(ROWS, WIDTH, 3, 2, 1), nn.GELU(), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.GELU()
        )
        layer = nn.TransformerEncoderLayer(
            WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, LETTERS)
        turns.step()

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        scans, letters = batch
        columns = self.encoder(self.shrink(scans).transpose(1, 2))
        logits = self.head(columns.unflatten(1, (LONG, -1)).mean(2)).float()
        if self.turns.planted or index % PERIOD == 0:
            self.log("errors", self.count_errors(logits.detach(), letters))
        return nn.functional.cross_entropy(logits.flatten(0, 1), letters.flatten())

    def count_errors(self, logits: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
        """The share of wrong letters."""
        read = [spell(row) for row in logits.argmax(-1).cpu().tolist()]
        return char_error_rate(read, [spell(row) for row in letters.cpu().tolist()])

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.period = PERIOD
    loader = DataLoader(Lines(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Reader(turns), loader)
