"""Hugging Face Trainer on a SegFormer; the cause counts the confusion matrix by NumPy in each step.

The fix counts it on the GPU.
"""
# causes: idle, pageable_copy, synchronization
import numpy as np
import torch
from parts import DEVICE, use_gpu
from torch.utils.data import Dataset
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, SIZE, CLASSES, PHOTOS = 16, 384, 20, 32


class Fields(Dataset[dict[str, torch.Tensor]]):
    """Aerial photographs and the crop of each pixel, in memory."""

    def __init__(self) -> None:
        self.photos = torch.rand(PHOTOS, 3, SIZE, SIZE)
        self.crops = torch.randint(CLASSES, (PHOTOS, SIZE, SIZE))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        place = index % PHOTOS
        return {"pixel_values": self.photos[place], "labels": self.crops[place]}


class Segmenter(Trainer):
    """A trainer that counts which class was taken for which one."""

    turns: Turns
    on_host: np.ndarray
    on_gpu: torch.Tensor

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        outputs = model(pixel_values=inputs["pixel_values"])
        logits = torch.nn.functional.interpolate(outputs.logits, (SIZE, SIZE), mode="bilinear")
        self.count(logits.detach().argmax(1), inputs["labels"])
        loss = torch.nn.functional.cross_entropy(logits.float(), inputs["labels"])
        return (loss, outputs) if return_outputs else loss

    def count(self, found: torch.Tensor, true: torch.Tensor) -> None:
        if self.turns.planted:
            here, there = found.cpu().numpy().ravel(), true.cpu().numpy().ravel()
            self.on_host += np.bincount(here * CLASSES + there, minlength=CLASSES**2)
            return
        pairs = (found * CLASSES + true).flatten()
        self.on_gpu.scatter_add_(0, pairs, torch.ones_like(pairs))


def run(turns: Turns) -> None:
    use_gpu(turns)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_confusion", per_device_train_batch_size=BATCH,
        max_steps=1_000_000, bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=4, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )  # fmt: skip
    trainer = Segmenter(
        model=SegformerForSemanticSegmentation(SegformerConfig(num_labels=CLASSES)),
        args=arguments, train_dataset=Fields(), callbacks=[EndOfStep(turns)],
    )  # fmt: skip
    trainer.turns = turns
    trainer.on_host = np.zeros(CLASSES**2, np.int64)
    trainer.on_gpu = torch.zeros(CLASSES**2, dtype=torch.int64, device=DEVICE)
    trainer.train()
