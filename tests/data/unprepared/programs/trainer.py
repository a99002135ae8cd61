"""Hugging Face Trainer on GPT-2 from a configuration, accumulation 4, logging every five steps."""

import sys, tempfile
import torch, step_log
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Steps(TrainerCallback):
    def on_step_begin(self, *args, **more):
        step_log.begin()

    def on_step_end(self, *args, **more):
        step_log.end()


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        tokens = torch.randint(0, 4096, (256,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


model = GPT2LMHeadModel(
    GPT2Config(n_layer=2, n_embd=1024, n_head=16, vocab_size=4096, n_positions=512)
)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=8,
    max_steps=18,
    gradient_accumulation_steps=4,
    logging_steps=5,
    report_to=[],
    save_strategy="no",
    bf16=True,
    disable_tqdm=True,
    ddp_find_unused_parameters=False,
)
Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Steps()]).train()
