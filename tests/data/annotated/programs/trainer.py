"""Hugging Face Trainer on GPT-2 from a configuration, gradient accumulation 2."""

import sys, tempfile
import torch, watch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Steps(TrainerCallback):
    def on_step_end(self, *args, **more):
        watch.step()


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        length = 32 if watch.SMALL else 512
        tokens = torch.randint(0, 4096, (length,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Watched(GPT2LMHeadModel):
    def forward(self, input_ids=None, labels=None, **more):
        output = super().forward(input_ids, labels=labels, **more)
        watch._losses.append(output.loss.detach())
        return output


config = GPT2Config(n_layer=6, n_embd=1024, n_head=16, vocab_size=4096, n_positions=512)
if watch.SMALL:
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=4096, n_positions=64)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=2 if watch.SMALL else 16,
    max_steps=watch.STEPS,
    gradient_accumulation_steps=2,
    logging_steps=10,
    report_to=[],
    save_strategy="no",
    bf16=watch.CUDA,
    disable_tqdm=True,
    ddp_find_unused_parameters=False,
    use_cpu=not watch.CUDA,
)
model = watch.model(Watched(config))
Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Steps()]).train()
