"""Hugging Face Trainer on an AST that tells spoken commands; the cause reads the loss of each accent from the GPU.

The log shows for which accents the network is worse. The cause picks the samples of one accent
after the other by a mask and reads their sums. The fix adds all of them up in tables on the GPU.
"""

# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from torch.utils.data import Dataset
from transformers import (
    ASTConfig,
    ASTForAudioClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, FRAMES, BANDS, LAYERS, COMMANDS, ACCENTS, STORED = 48, 256, 128, 10, 35, 60, 256

Sample = dict[str, torch.Tensor]


class Commands(Dataset[Sample]):
    """Spectra of spoken commands, in memory, and who speaks."""

    def __init__(self) -> None:
        self.spectra = torch.randn(STORED, FRAMES, BANDS)
        self.commands = torch.randint(COMMANDS, (STORED,))
        self.accents = torch.randint(ACCENTS, (STORED,))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Sample:
        place = index % STORED
        return {
            "input_values": self.spectra[place],
            "labels": self.commands[place],
            "accents": self.accents[place],
        }


class Listener(Trainer):
    """Keeps the loss, the hits and the number of samples of each accent."""

    turns: Turns
    on_host: list[list[float]]
    on_gpu: torch.Tensor

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        outputs = model(input_values=inputs["input_values"])
        logits, labels = outputs.logits.float(), inputs["labels"]
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        hits = (logits.detach().argmax(1) == labels).float()
        keep = self.read_each if self.turns.planted else self.add_up
        keep(inputs["accents"], losses.detach(), hits)
        return (losses.mean(), outputs) if return_outputs else losses.mean()

    def read_each(self, accents: torch.Tensor, losses: torch.Tensor, hits: torch.Tensor) -> None:
        for accent, sums in enumerate(self.on_host):
            chosen = accents == accent
            if chosen.any():
                sums[0] += losses[chosen].sum().item()
                sums[1] += hits[chosen].sum().item()
                sums[2] += chosen.sum().item()

    def add_up(self, accents: torch.Tensor, losses: torch.Tensor, hits: torch.Tensor) -> None:
        rows = torch.stack([losses, hits, torch.ones_like(hits)], 1)
        self.on_gpu.index_add_(0, accents, rows)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = ASTConfig(
        num_hidden_layers=LAYERS, max_length=FRAMES, num_mel_bins=BANDS, num_labels=COMMANDS
    )
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_accent_losses", per_device_train_batch_size=BATCH,
        max_steps=1_000_000, bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=3, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )  # fmt: skip
    trainer = Listener(
        model=ASTForAudioClassification(config), args=arguments, train_dataset=Commands(),
        callbacks=[EndOfStep(turns)],
    )  # fmt: skip
    trainer.turns = turns
    trainer.on_host = [[0.0, 0.0, 0.0] for _ in range(ACCENTS)]
    trainer.on_gpu = torch.zeros(ACCENTS, 3, device=DEVICE)
    trainer.train()
