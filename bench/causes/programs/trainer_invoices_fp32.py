"""Trainer on a LayoutLM that tags invoices; the cause is that its products run in full fp32.

The fix lets products use TF32, as `tf32=True` of the arguments does.
"""

# causes: no_tensor_cores
import tempfile

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from trainer_turns import EndOfTf32Step
from transformers import LayoutLMConfig, LayoutLMForTokenClassification, Trainer, TrainingArguments
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TAGS = 12, 384, 8, 768, 30528, 13


class Invoices(Dataset[dict[str, torch.Tensor]]):
    """Pages of words with their boxes and tags."""

    def __init__(self, pages: int = 64) -> None:
        self.words = torch.randint(1, WORDS, (pages, LENGTH))
        corners = torch.randint(0, 1000, (pages, LENGTH, 2, 2)).sort(dim=2).values
        self.boxes = corners.flatten(2)
        self.tags = torch.randint(TAGS, (pages, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        page = index % len(self.words)
        return {
            "input_ids": self.words[page], "bbox": self.boxes[page],
            "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": self.tags[page],
        }  # fmt: skip


def make_model() -> LayoutLMForTokenClassification:
    config = LayoutLMConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=4 * WIDTH, max_position_embeddings=512, num_labels=TAGS,
    )  # fmt: skip
    return LayoutLMForTokenClassification(config)


def run(turns: Turns) -> None:
    use_gpu(turns)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=1_000_000,
            logging_strategy="no", save_strategy="no", eval_strategy="no", report_to=[],
            dataloader_num_workers=2, disable_tqdm=True, bf16=False, optim="adamw_torch_fused",
        )  # fmt: skip
        Trainer(
            model=make_model(), args=arguments, train_dataset=Invoices(),
            callbacks=[EndOfTf32Step(turns)],
        ).train()  # fmt: skip
