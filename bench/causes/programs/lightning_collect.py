"""A language model under Lightning; the cause is a callback against a lack of memory, in each fourth step.

It collects garbage, beside a list of texts in memory, and empties the allocator's cache.
"""
# causes: idle, allocation
import gc

import lightning_or_pytorch as lightning
import torch
from parts import Gpt, language_loss, use_gpu
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, LENGTH, TEXTS, PERIOD = 16, 513, 40_000, 4


class Texts(Dataset[torch.Tensor]):
    """Texts with their sources, as a file of JSON lines has them."""

    def __init__(self) -> None:
        self.words = torch.randint(8192, (256, LENGTH))
        self.texts = [
            {"id": number, "source": {"name": "web", "place": number}, "marks": [number % 7, []]}
            for number in range(TEXTS)
        ]

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        text = self.texts[index % len(self.texts)]
        return self.words[text["id"] % len(self.words)]  # type: ignore[operator]


class Collect(lightning.Callback):
    """Gives back what nobody holds, on the host and on the GPU."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.period = PERIOD

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:  # type: ignore[no-untyped-def]
        if self.turns.planted and batch_idx % PERIOD == 0:
            gc.collect()
            torch.cuda.empty_cache()
        if not self.turns.step():
            trainer.should_stop = True


class Language(lightning.LightningModule):
    """A GPT."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Gpt(8, 768)

    def training_step(self, words: torch.Tensor, _: int) -> torch.Tensor:
        return language_loss(self.model, words)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[Collect(turns)],
    )  # fmt: skip
    trainer.fit(Language(), DataLoader(Texts(), BATCH, num_workers=2, pin_memory=True))
