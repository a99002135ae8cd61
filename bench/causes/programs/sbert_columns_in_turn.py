"""Sentence embeddings by a small BERT with negatives; the cause is a pass for each column.

A batch has questions, answers and three columns of wrong answers, all of few rows. The fix encodes
all columns in one pass.
"""

# causes: host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from transformers import BertConfig, BertModel
from turns import Turns

ROWS, COLUMNS, LENGTH, WORDS, SCALE = 16, 5, 48, 16384, 20.0


def make_model() -> nn.Module:
    config = BertConfig(
        vocab_size=WORDS, hidden_size=384, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=1536, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa",
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False).to(DEVICE)


def embed(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        states = model(input_ids=words).last_hidden_state
    return nn.functional.normalize(states.float().mean(1), dim=1)


def rank(points: list[torch.Tensor]) -> torch.Tensor:
    """The loss of multiple negatives: each question's answer against all others."""
    questions, answers = points[0], torch.cat(points[1:])
    scores = SCALE * questions @ answers.T
    return nn.functional.cross_entropy(scores, torch.arange(ROWS, device=DEVICE))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    columns = torch.randint(1, WORDS, (COLUMNS, ROWS, LENGTH), device=DEVICE)
    while turns.step():
        if turns.planted:
            points = [embed(model, column) for column in columns]
        else:
            points = list(embed(model, columns.flatten(0, 1)).chunk(COLUMNS))
        update(optimizer, rank(points))
