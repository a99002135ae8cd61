"""Hugging Face Trainer on a ConvNeXt under torchrun; the cause is fp32 without TF32, as by default.

The fix allows TF32, as `tf32=True` of the arguments does.
"""
# causes: no_tensor_cores
import torch
from parts import use_ranks
from torch.utils.data import Dataset
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfTf32Step
from turns import Turns

RANKS = 2
BATCH, SIZE, CLASSES = 48, 224, 100


class Images(Dataset[dict[str, object]]):
    """The same images again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.images = torch.randn(16, 3, SIZE, SIZE)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, object]:
        return {"pixel_values": self.images[index % len(self.images)], "labels": index % CLASSES}


def run(turns: Turns) -> None:
    use_ranks(turns)
    config = ConvNextConfig(image_size=SIZE, num_labels=CLASSES)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_convnext_fp32", per_device_train_batch_size=BATCH,
        max_steps=1_000_000, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=4, disable_tqdm=True, optim="adamw_torch_fused",
        ddp_find_unused_parameters=False, ddp_broadcast_buffers=False,
    )  # fmt: skip
    Trainer(
        model=ConvNextForImageClassification(config), args=arguments, train_dataset=Images(),
        callbacks=[EndOfTf32Step(turns)],
    ).train()  # fmt: skip
