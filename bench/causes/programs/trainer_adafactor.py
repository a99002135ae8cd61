"""Hugging Face Trainer on an ELECTRA; the cause is Adafactor, which steps weight by weight.

The fix is the fused AdamW.
"""
# causes: tiny_kernels, host_bound, synchronization
from collections.abc import Callable

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    ElectraConfig,
    ElectraForMaskedLM,
    Trainer,
    TrainingArguments,
)
from transformers.optimization import Adafactor
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TEXTS = 64, 256, 10, 512, 8192, 2048

Text = dict[str, torch.Tensor]


class Texts(Dataset[Text]):
    """Texts of random words."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (TEXTS, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Text:
        words = self.words[index % TEXTS]
        return {"input_ids": words, "labels": words}


class Either(torch.optim.AdamW):
    """Steps as the turns say: weight by weight, or all weights at once."""

    def __init__(self, model: torch.nn.Module, turns: Turns) -> None:
        super().__init__(model.parameters(), lr=1e-4, fused=True)
        self.turns = turns
        self.adafactor = Adafactor(
            model.parameters(), lr=None, scale_parameter=True, relative_step=True, warmup_init=True
        )

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        if self.turns.planted:
            self.adafactor.step()
        else:
            super().step(closure)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = ElectraConfig(
        vocab_size=WORDS, embedding_size=WIDTH, hidden_size=WIDTH, num_hidden_layers=LAYERS,
        num_attention_heads=8, intermediate_size=4 * WIDTH,
    )  # fmt: skip
    model = ElectraForMaskedLM(config).to("cuda")
    optimizer = Either(model, turns)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_adafactor", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, max_grad_norm=0.0,
    )  # fmt: skip
    Trainer(
        model=model, args=arguments, train_dataset=Texts(), callbacks=[EndOfStep(turns)],
        optimizers=(optimizer, constant),
    ).train()  # fmt: skip
