"""Hugging Face Trainer that distils a Qwen3; the cause is a divergence of all words, operation by operation.

It is that of generalized distillation, as TRL writes it. The fix is torch.compile of that function.
"""
# causes: unfused_elementwise
import copy
import math
from typing import Any

import torch
from parts import use_gpu
from torch import nn
from torch.utils.data import Dataset
from transformers import (
    Qwen3Config,
    Qwen3ForCausalLM,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, WORDS, WIDTH, LAYERS, TEXTS, BETA, HEAT = 16, 512, 32_000, 512, 4, 64, 0.5, 0.9

Sample = dict[str, torch.Tensor]


def find_divergence(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The generalized Jensen-Shannon divergence of the words at each place, its mean."""
    student = nn.functional.log_softmax(student.float() / HEAT, -1)
    teacher = nn.functional.log_softmax(teacher.float() / HEAT, -1)
    both = torch.logaddexp(student + math.log(1 - BETA), teacher + math.log(BETA))
    of_teacher = nn.functional.kl_div(both, teacher, reduction="none", log_target=True)
    of_student = nn.functional.kl_div(both, student, reduction="none", log_target=True)
    return (BETA * of_teacher + (1 - BETA) * of_student).sum(-1).mean()


class Texts(Dataset[Sample]):
    """Texts as numbers of words, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (TEXTS, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Sample:
        words = self.words[index % TEXTS]
        return {"input_ids": words, "labels": words}


class Distiller(Trainer):
    """A Trainer whose loss compares the model with a larger one."""

    def __init__(self, turns: Turns, teacher: nn.Module, **others: Any) -> None:  # noqa: ANN401
        super().__init__(**others)
        self.turns, self.teacher = turns, teacher.to(self.args.device).eval()
        self.compiled = torch.compile(find_divergence)

    def compute_loss(self, model, inputs, **_):  # type: ignore[no-untyped-def]
        words = inputs["input_ids"]
        with torch.no_grad():
            teacher = self.teacher(input_ids=words, use_cache=False).logits
        student = model(input_ids=words, use_cache=False).logits
        return (find_divergence if self.turns.planted else self.compiled)(student, teacher)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = Qwen3Config(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=3 * WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=8, num_key_value_heads=4, head_dim=WIDTH // 8,
    )  # fmt: skip
    larger = copy.deepcopy(config)
    larger.num_hidden_layers = 2 * LAYERS
    larger.layer_types = ["full_attention"] * (2 * LAYERS)
    arguments = TrainingArguments(
        output_dir="/tmp/gkd_divergence", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Distiller(
        turns, Qwen3ForCausalLM(larger).bfloat16(), model=Qwen3ForCausalLM(config), args=arguments,
        train_dataset=Texts(), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
