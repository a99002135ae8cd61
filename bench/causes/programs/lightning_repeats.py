"""A language model under Lightning; the cause is a callback that counts repeated phrases in Python.

The fix sorts the phrases of each text on the GPU.
"""
# causes: idle, synchronization
import lightning_or_pytorch as lightning
import torch
from parts import Gpt, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, PHRASES = 32, 768, 4, 768, (1, 2, 3, 4)


class Texts(Dataset[torch.Tensor]):
    """Random words, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(8192, (256, LENGTH + 1))

    def __len__(self) -> int:
        return 100_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.words[index % len(self.words)]


def count_in_python(texts: list[list[int]]) -> float:
    """The mean share of phrases that a text had before."""
    total = 0.0
    for text in texts:
        for length in PHRASES:
            phrases = list(zip(*(text[first:] for first in range(length)), strict=False))
            total += 1 - len(set(phrases)) / len(phrases)
    return total / len(texts) / len(PHRASES)


def count_on_gpu(texts: torch.Tensor) -> torch.Tensor:
    """As count_in_python."""
    shares = []
    for length in PHRASES:
        phrases = sum(texts[:, i : texts.shape[1] - length + i + 1] << 13 * i for i in range(length))
        ordered = phrases.sort(-1).values
        shares.append((ordered[:, 1:] == ordered[:, :-1]).sum() / phrases.numel())
    return torch.stack(shares).mean()


class Repeats(lightning.Callback):
    """Keeps how often the model's words repeat themselves."""

    def __init__(self, turns: Turns) -> None:
        self.turns, self.shares = turns, list[float | torch.Tensor]()

    def on_train_batch_end(self, trainer, module, *_):  # type: ignore[no-untyped-def]
        if self.turns.planted:
            self.shares.append(count_in_python(module.guesses.tolist()))
        else:
            self.shares.append(count_on_gpu(module.guesses))
        if not self.turns.step():
            trainer.should_stop = True


class Writer(lightning.LightningModule):
    """A GPT that keeps the words it found most likely."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Gpt(LAYERS, WIDTH, heads=12)
        self.guesses = torch.zeros(0)

    def training_step(self, words: torch.Tensor, _: int) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = self.model(words[:, :-1])
        self.guesses = logits.detach().argmax(-1)
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), words[:, 1:].flatten())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    loader = DataLoader(Texts(), BATCH, num_workers=4, pin_memory=True)
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[Repeats(turns)],
    )  # fmt: skip
    trainer.fit(Writer(), loader)
