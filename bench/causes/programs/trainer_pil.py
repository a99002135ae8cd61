"""Hugging Face Trainer on a DINOv2; the cause changes each image with PIL in the main process."""
# causes: idle
import random

import torch
from parts import use_gpu
from PIL import Image
from torch.utils.data import Dataset
from torchvision import transforms
from transformers import (
    Dinov2Config,
    Dinov2ForImageClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, SIZE, CLASSES = 48, 224, 100


class Images(Dataset[dict[str, object]]):
    """Random images; with the cause they are cropped, flipped and coloured when they are read."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        draw = random.Random(0)
        self.images = [
            Image.frombytes("RGB", (256, 256), draw.randbytes(3 * 256 * 256)) for _ in range(16)
        ]
        self.change = transforms.Compose(
            [
                transforms.RandomCrop(SIZE),
                transforms.RandomHorizontalFlip(),
                transforms.ColorJitter(0.4, 0.4),
                transforms.ToTensor(),
                transforms.Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
            ]
        )
        self.ready = [self.change(image) for image in self.images]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, object]:
        number = index % len(self.images)
        pixels = self.change(self.images[number]) if self.turns.planted else self.ready[number]
        return {"pixel_values": pixels, "labels": index % CLASSES}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = Dinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=SIZE, patch_size=14, num_labels=CLASSES
    )
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_pil", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=Dinov2ForImageClassification(config), args=arguments, train_dataset=Images(turns),
        callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
