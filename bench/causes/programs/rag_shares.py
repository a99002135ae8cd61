"""Passages for questions, each with its share of all (as RAG weighs them); the cause is one softmax of two million scores.

PyTorch gives a row to one block, and there are 16 questions. The fix finds the best scores first, and
the sum of all by parts of a row.
"""
# causes: unused_gpu
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import DistilBertConfig, DistilBertModel
from turns import Turns

GROUPS, QUESTIONS, ASKED, PASSAGES, WIDTH, BATCHES = 16, 16, 32, 2**21, 256, 4
PARTS, BEST, HEAT = 2048, 20, 0.05

Found = tuple[torch.Tensor, torch.Tensor]


class Encoder(nn.Module):
    """Words of questions to vectors of length 1."""

    def __init__(self) -> None:
        super().__init__()
        config = DistilBertConfig(dim=768, hidden_dim=3072, n_layers=6, n_heads=12)
        self.model, self.head = DistilBertModel(config), nn.Linear(768, WIDTH, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        first = self.model(input_ids=words).last_hidden_state[:, 0]
        return nn.functional.normalize(self.head(first).float(), dim=-1).half()


def make_passages() -> torch.Tensor:
    """Vectors of length 1 or so, in fp16."""
    return torch.randn(PASSAGES, WIDTH, device=DEVICE, dtype=torch.float16) / WIDTH**0.5


def share_by_rows(scores: torch.Tensor) -> Found:
    best = scores.softmax(-1).topk(BEST)
    return best.values, best.indices


def share_by_parts(scores: torch.Tensor) -> Found:
    best = scores.topk(BEST)
    parts = scores.view(len(scores), PARTS, -1).logsumexp(-1)
    return (best.values - parts.logsumexp(-1, keepdim=True)).exp(), best.indices


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    encoder = Encoder().to(DEVICE, torch.float16).eval()
    passages = make_passages()
    batches = torch.randint(1, 30_000, (BATCHES, GROUPS * QUESTIONS, ASKED), device=DEVICE)
    steps, sure = 0, torch.zeros((), device=DEVICE)
    while turns.step():
        for questions in encoder(batches[steps % BATCHES]).split(QUESTIONS):
            scores = (questions @ passages.T).float() / HEAT
            shares, _ = share_by_rows(scores) if turns.planted else share_by_parts(scores)
            sure += shares[:, 0].sum()
        steps += 1
