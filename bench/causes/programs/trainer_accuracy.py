"""Hugging Face Trainer on a Llama; the cause copies all logits to the host for an accuracy of each step.

The fix finds the likeliest words on the GPU, and copies those.
"""
# causes: pageable_copy, idle
import numpy as np
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS = 8, 512, 8, 768, 8192

Batch = dict[str, torch.Tensor]


class Texts(Dataset[Batch]):
    """Random words, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (256, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Batch:
        words = self.words[index % len(self.words)]
        return {"input_ids": words, "labels": words}


class Learner(Trainer):
    """Keeps the share of words that were the likeliest ones, by batch."""

    def __init__(self, turns: Turns, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.turns, self.accuracies = turns, list[float]()

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        outputs = model(**inputs)
        logits = outputs.logits.detach()
        if self.turns.planted:
            logits = logits.cpu()
        guesses = logits[:, :-1].argmax(-1).cpu().numpy()
        right = guesses == inputs["labels"][:, 1:].cpu().numpy()
        self.accuracies.append(float(np.mean(right)))
        return (outputs.loss, outputs) if return_outputs else outputs.loss


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=3 * WIDTH, use_cache=False,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_accuracy", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Learner(
        turns, model=LlamaForCausalLM(config), args=arguments, train_dataset=Texts(),
        callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
