"""Passages ranked by the words of questions (late interaction, as ColBERT); the cause compares the words in fp32.

The vectors of passages are kept in 8 bits. The fix makes 16 bits of them, not 32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import DistilBertConfig, DistilBertModel
from turns import Turns

QUESTIONS, ASKED, PASSAGES, TOLD, WIDTH, PART, BEST, BATCHES = 16, 32, 40_000, 160, 128, 1000, 10, 6


class Encoder(nn.Module):
    """Words of questions to vectors of length 1."""

    def __init__(self) -> None:
        super().__init__()
        config = DistilBertConfig(dim=768, hidden_dim=3072, n_layers=6, n_heads=12)
        self.model, self.head = DistilBertModel(config), nn.Linear(768, WIDTH, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states = self.model(input_ids=words).last_hidden_state
        return nn.functional.normalize(self.head(states).float(), dim=-1).half()


def compare(question: torch.Tensor, passages: torch.Tensor) -> torch.Tensor:
    """The scores (question, passage): each word's best match in the passage, summed."""
    scores = question.flatten(0, 1) @ passages.flatten(0, 1).T
    best = scores.view(QUESTIONS, ASKED, len(passages), TOLD).amax(3)
    return best.float().sum(1)


def make_passages() -> torch.Tensor:
    """The vectors of the words of all passages, in 8 bits."""
    shape = (PASSAGES, TOLD, WIDTH)
    return torch.randint(-127, 128, shape, device=DEVICE, dtype=torch.int8)


def unpack(passages: torch.Tensor) -> torch.Tensor:
    return nn.functional.normalize(passages.half() / 127, dim=-1)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    encoder = Encoder().to(DEVICE, torch.float16).eval()
    passages = make_passages()
    batches = torch.randint(1, 30_000, (BATCHES, QUESTIONS, ASKED), device=DEVICE)
    answers = []
    while turns.step():
        question = encoder(batches[len(answers) % BATCHES])
        scores = []
        for part in passages.split(PART):
            told = unpack(part)
            if turns.planted:
                scores.append(compare(question.float(), told.float()))
            else:
                scores.append(compare(question, told))
        answers.append(torch.cat(scores, 1).topk(BEST).indices.cpu())
