"""Sounds of cities told apart by a transformer (AST of transformers), under Lightning, in fp32.

The cause is the precision of matrix products as by default; the fix is Lightning's hint:
`torch.set_float32_matmul_precision("high")`.
"""
# causes: no_tensor_cores
import lightning_or_pytorch as lightning
import torch
from parts import use_gpu
from torch.utils.data import DataLoader, Dataset
from transformers import ASTConfig, ASTForAudioClassification
from turns import Turns

BATCH, FRAMES, BANDS, WIDTH, LAYERS, SOUNDS, CLIPS = 12, 1024, 128, 512, 8, 50, 64


class Clips(Dataset[tuple[torch.Tensor, int]]):
    """Spectra of ten seconds, ready in memory."""

    def __init__(self) -> None:
        self.clips = torch.rand(CLIPS, FRAMES, BANDS)

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.clips[index % CLIPS], index % SOUNDS


class Sounds(lightning.LightningModule):
    """An audio spectrogram transformer."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        config = ASTConfig(
            hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=8,
            intermediate_size=4 * WIDTH, max_length=FRAMES, num_labels=SOUNDS,
        )  # fmt: skip
        self.model = ASTForAudioClassification(config)
        turns.step()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        torch.set_float32_matmul_precision("highest" if self.turns.planted else "high")
        clips, sounds = batch
        return self.model(input_values=clips, labels=sounds).loss

    def on_train_batch_end(self, *_: object) -> None:
        if not self.turns.step():
            self.trainer.should_stop = True

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    loader = DataLoader(Clips(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Sounds(turns), loader)
