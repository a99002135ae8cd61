"""Hugging Face Trainer on a T5; the cause is a callback that decodes a sample at each step."""
# causes: idle
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from turns import Turns


class Sentences(Dataset[dict[str, torch.Tensor]]):
    """The same sentence again and again, ready on the CPU."""

    def __init__(self) -> None:
        words = torch.randint(8000, (256,))
        self.sample = {"input_ids": words, "labels": words[:128]}

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self.sample


class Callback(TrainerCallback):
    """Ends each step of the turns, and with the cause counts words for a log."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.step()

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if self.turns.planted:
            counts: dict[int, int] = {}
            for number in range(300_000):
                counts[number % 997] = counts.get(number % 997, 0) + 1
        if not self.turns.step():
            control.should_training_stop = True
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = T5Config(vocab_size=8192, d_model=512, num_layers=6, decoder_start_token_id=0)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer", per_device_train_batch_size=64, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=4, disable_tqdm=True,
    )  # fmt: skip
    Trainer(
        model=T5ForConditionalGeneration(config), args=arguments, train_dataset=Sentences(),
        callbacks=[Callback(turns)],
    ).train()  # fmt: skip
