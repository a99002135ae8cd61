"""Hugging Face Trainer on a Qwen3; the cause is its option to empty the cache in each step."""
# causes: allocation
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainerCallback, TrainingArguments
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS = 8, 512, 8, 768, 32_000


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Random words, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (256, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        words = self.words[index % len(self.words)]
        return {"input_ids": words, "labels": words}


class EmptyCache(TrainerCallback):
    """Sets the option of Trainer that empties the cache, and ends each step of the turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.step()

    def on_step_begin(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        args.torch_empty_cache_steps = 1 if self.turns.planted else None

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if not self.turns.step():
            control.should_training_stop = True
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = Qwen3Config(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        num_key_value_heads=4, head_dim=64, intermediate_size=3 * WIDTH, use_cache=False,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_empty_cache", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=Qwen3ForCausalLM(config), args=arguments, train_dataset=Texts(),
        callbacks=[EmptyCache(turns)],
    ).train()  # fmt: skip
