"""Toxic comments told by a CamemBERT (transformers) with Accelerate; the cause is scikit-learn's AUC in each step.

It is of the last comments, for each kind of toxicity. The fix counts ranks on the GPU, and keeps the
result there.
"""
# causes: idle, synchronization
import numpy as np
import torch
from accelerate import Accelerator
from parts import DEVICE, use_gpu
from sklearn.metrics import roc_auc_score
from torch import nn
from transformers import CamembertConfig, CamembertForSequenceClassification
from turns import Turns

BATCH, LENGTH, WORDS, LAYERS, KINDS, STORED, LAST = 64, 192, 8000, 8, 6, 512, 8192


class HostScores:
    """The AUC of the last comments, by NumPy."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.scores = random.random((LAST, KINDS), np.float32)
        self.labels = (random.random((LAST, KINDS)) < 0.1).astype(np.int64)
        self.log: list[float] = []

    def add(self, scores: torch.Tensor, labels: torch.Tensor, place: int) -> None:
        part = slice(place, place + len(scores))
        self.scores[part] = scores.cpu().numpy()
        self.labels[part] = labels.cpu().numpy()
        aucs = roc_auc_score(self.labels, self.scores, average=None)
        self.log.append(float(np.mean(aucs)))


class GpuScores:
    """The same, on the GPU."""

    def __init__(self) -> None:
        self.scores = torch.rand(LAST, KINDS, device=DEVICE)
        self.labels = (torch.rand(LAST, KINDS, device=DEVICE) < 0.1).float()
        self.log: list[torch.Tensor] = []

    def add(self, scores: torch.Tensor, labels: torch.Tensor, place: int) -> None:
        part = slice(place, place + len(scores))
        self.scores[part], self.labels[part] = scores, labels
        ranks = self.scores.argsort(0).argsort(0) + 1.0
        toxic = self.labels.sum(0)
        above = (ranks * self.labels).sum(0) - toxic * (toxic + 1) / 2
        self.log.append((above / (toxic * (LAST - toxic))).mean())


def make_model() -> CamembertForSequenceClassification:
    config = CamembertConfig(
        vocab_size=WORDS, hidden_size=768, num_hidden_layers=LAYERS, num_attention_heads=12,
        intermediate_size=3072, max_position_embeddings=LENGTH + 2, num_labels=KINDS,
        type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    return CamembertForSequenceClassification(config)


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    criterion = nn.BCEWithLogitsLoss()
    words = torch.randint(3, WORDS, (STORED, LENGTH), device=DEVICE)
    labels = (torch.rand(STORED, KINDS, device=DEVICE) < 0.1).float()
    on_host, on_gpu, step = HostScores(), GpuScores(), 0
    while turns.step():
        first = step * BATCH % STORED
        part = slice(first, first + BATCH)
        logits = model(input_ids=words[part]).logits.float()
        loss = criterion(logits, labels[part])
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        scores = on_host if turns.planted else on_gpu
        scores.add(logits.detach().sigmoid(), labels[part], step * BATCH % LAST)
        step += 1
