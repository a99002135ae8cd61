"""Hugging Face Trainer on a DistilBERT that ranks answers; the cause loops over the samples of a batch in `compute_loss`.

The fix compares all questions with their answers at once. The encoder takes the whole batch in both.
"""
# causes: tiny_kernels, host_bound
import torch
import torch.nn.functional as F
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    DistilBertConfig,
    DistilBertModel,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from turns import Turns

QUESTIONS = 48
TEXTS_PER_QUESTION = 5  # the question, its answer, three that are wrong
MAX_LENGTH = 64
TEMPERATURE = 0.05


class RankingDataset(Dataset):
    """Tokens of a question and of its answers."""

    def __init__(self):
        self.ids = torch.randint(5, 30522, (512, TEXTS_PER_QUESTION, MAX_LENGTH))

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        return {"input_ids": self.ids[i % len(self.ids)]}


def embed(model, input_ids):
    """The mean of the last states of each text."""
    hidden = model(input_ids=input_ids.flatten(0, 1)).last_hidden_state
    return hidden.float().mean(dim=1).unflatten(0, (-1, TEXTS_PER_QUESTION))


def loss_by_sample(embeddings):
    losses = []
    for texts in embeddings:
        question, answers = texts[0], texts[1:]
        scores = F.cosine_similarity(question.unsqueeze(0), answers, dim=-1) / TEMPERATURE
        target = torch.zeros((), dtype=torch.long, device=scores.device)
        losses.append(F.cross_entropy(scores, target))
    return torch.stack(losses).mean()


def loss_of_batch(embeddings):
    question, answers = embeddings[:, :1], embeddings[:, 1:]
    scores = F.cosine_similarity(question, answers, dim=-1) / TEMPERATURE
    target = torch.zeros(len(scores), dtype=torch.long, device=scores.device)
    return F.cross_entropy(scores, target)


class RankingTrainer(Trainer):
    """Trains an encoder to put the right answer first."""

    turns: Turns

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        embeddings = embed(model, inputs["input_ids"])
        loss = loss_by_sample(embeddings) if self.turns.planted else loss_of_batch(embeddings)
        return (loss, embeddings) if return_outputs else loss


class StepCallback(TrainerCallback):
    """Ends each step of the turns."""

    def __init__(self, turns):
        self.turns = turns

    def on_step_end(self, args, state, control, **kwargs):
        if not self.turns.step():
            control.should_training_stop = True
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    turns.step()
    args = TrainingArguments(
        output_dir="/tmp/trainer_rank_loss", per_device_train_batch_size=QUESTIONS, max_steps=1_000_000,
        bf16=True, learning_rate=2e-5, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )
    trainer = RankingTrainer(
        model=DistilBertModel(DistilBertConfig()), args=args, train_dataset=RankingDataset(),
        callbacks=[StepCallback(turns)],
    )
    trainer.turns = turns
    trainer.train()
