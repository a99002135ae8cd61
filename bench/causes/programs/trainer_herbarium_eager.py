"""Trainer (transformers) on a ViT for pressed plants at 384 pixels; the cause is eager attention.

The fix is attn_implementation "sdpa", which computes the same.
"""

# causes: unfused_attention
import tempfile

import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import Dataset
from trainer_turns import EndOfStep
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification
from turns import Turns

BATCH, PIXELS, SPECIES = 32, 384, 1000


class Sheets(Dataset[dict[str, torch.Tensor]]):
    """Pictures of pressed plants, in memory as 16-bit numbers."""

    def __init__(self) -> None:
        self.pictures = torch.rand(64, 3, PIXELS, PIXELS).bfloat16()

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {
            "pixel_values": self.pictures[index % 64],
            "labels": torch.tensor(index % SPECIES),
        }


class PlantTrainer(Trainer):
    """Chooses the attention of each step."""

    turns: Turns

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], **_: object
    ) -> torch.Tensor:
        chosen = "eager" if self.turns.planted else "sdpa"
        self.model.config._attn_implementation = chosen
        return model(**inputs).loss


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = ViTConfig(
        image_size=PIXELS, num_labels=SPECIES, num_hidden_layers=8, attn_implementation="eager"
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=1_000_000, bf16=True,
            logging_strategy="no", save_strategy="no", eval_strategy="no", report_to=[],
            dataloader_num_workers=4, disable_tqdm=True, optim="adamw_torch_fused",
        )  # fmt: skip
        trainer = PlantTrainer(
            model=ViTForImageClassification(config), args=arguments, train_dataset=Sheets(),
            callbacks=[EndOfStep(turns)],
        )  # fmt: skip
        trainer.turns = turns
        trainer.train()
