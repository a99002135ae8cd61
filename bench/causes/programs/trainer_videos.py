"""Hugging Face Trainer on a VideoMAE; the cause is `dataloader_pin_memory=False`.

The fix has its clips in pinned memory.
"""
# causes: pageable_copy
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainingArguments,
    VideoMAEConfig,
    VideoMAEForVideoClassification,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, FRAMES, SIDE, WIDTH, LAYERS, CLASSES, STORED = 24, 16, 224, 384, 8, 16, 4

Clips = dict[str, torch.Tensor]


class Numbers(Dataset[int]):
    """The numbers of clips."""

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> int:
        return index


class Read:
    """Takes a batch of decoded clips from a cache in host memory."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.stored = [torch.randn(BATCH, FRAMES, 3, SIDE, SIDE) for _ in range(STORED)]
        self.pinned = [clips.pin_memory() for clips in self.stored]

    def __call__(self, numbers: list[int]) -> Clips:
        stored = self.stored if self.turns.planted else self.pinned
        labels = torch.tensor([number % CLASSES for number in numbers])
        return {"pixel_values": stored[numbers[0] % STORED], "labels": labels}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = VideoMAEConfig(
        image_size=SIDE, num_frames=FRAMES, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=6, intermediate_size=4 * WIDTH, num_labels=CLASSES,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_videos", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, dataloader_pin_memory=False, disable_tqdm=True,
        optim="adamw_torch_fused", remove_unused_columns=False,
    )  # fmt: skip
    Trainer(
        model=VideoMAEForVideoClassification(config), args=arguments, train_dataset=Numbers(),
        data_collator=Read(turns), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
