"""Preferences learned by DPO (Hugging Face Trainer); the cause moves the reference to the GPU and back.

The fix leaves it there.
"""
# causes: pageable_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from trainer_turns import EndOfStep
from turns import Turns

PAIRS, LENGTH, LAYERS, WIDTH, WORDS, PROMPT, BETA = 8, 256, 6, 512, 16384, 64, 0.1

Batch = dict[str, torch.Tensor]


class Answers(Dataset[Batch]):
    """Pairs of answers to a prompt, the better one first."""

    def __init__(self) -> None:
        self.words = torch.randint(1, WORDS, (256, 2, LENGTH))
        self.words[:, 1, :PROMPT] = self.words[:, 0, :PROMPT]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Batch:
        return {"input_ids": self.words[index % 256]}


def add_logs(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    """The logarithm of how likely the model finds each answer behind its prompt."""
    logits = model(input_ids=words).logits[:, PROMPT - 1 : -1].float()
    chances = logits.log_softmax(-1).gather(-1, words[:, PROMPT:, None])
    return chances.squeeze(-1).sum(-1)


class DpoTrainer(Trainer):
    """Raises the better answer above the other, seen from the reference."""

    def __init__(self, turns: Turns, reference: nn.Module, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.turns, self.reference = turns, reference.eval()

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        words = inputs["input_ids"].flatten(0, 1)
        self.reference.to(DEVICE)
        with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
            before = add_logs(self.reference, words)
        if self.turns.planted:
            self.reference.to("cpu")
        gains = (add_logs(model, words) - before).view(-1, 2)
        loss = -nn.functional.logsigmoid(BETA * (gains[:, 0] - gains[:, 1])).mean()
        return (loss, {"gains": gains}) if return_outputs else loss


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=8
    )
    policy, reference = GPT2LMHeadModel(config), GPT2LMHeadModel(config)
    reference.load_state_dict(policy.state_dict())
    arguments = TrainingArguments(
        output_dir="/tmp/dpo_reference", per_device_train_batch_size=PAIRS, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    DpoTrainer(
        turns, reference, model=policy, args=arguments, train_dataset=Answers(),
        callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
