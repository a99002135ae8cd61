"""Sentence embeddings by a BERT with hard triplets; the cause is a boolean mask for each anchor.

Each mask makes the host wait for the GPU. The fix takes the largest and least distances of all
rows at once.
"""

# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from transformers import BertConfig, BertModel
from turns import Turns

BATCH, LENGTH, WORDS, TOPICS, MARGIN = 192, 64, 16384, 24, 0.3


def make_model() -> nn.Module:
    config = BertConfig(vocab_size=WORDS, num_hidden_layers=6, attn_implementation="sdpa")
    return BertModel(config, add_pooling_layer=False).to(DEVICE)


def embed(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16):
        states = model(input_ids=words).last_hidden_state
    return nn.functional.normalize(states.float().mean(1), dim=1)


def mine_by_rows(distances: torch.Tensor, alike: torch.Tensor) -> torch.Tensor:
    """The loss of each anchor's hardest pair, one anchor after the other."""
    losses = []
    for row, same in zip(distances, alike, strict=True):
        farthest, nearest = row[same].max(), row[~same].min()
        losses.append(nn.functional.relu(farthest - nearest + MARGIN))
    return torch.stack(losses).mean()


def mine_at_once(distances: torch.Tensor, alike: torch.Tensor) -> torch.Tensor:
    """The same for all anchors at once."""
    farthest = distances.masked_fill(~alike, -torch.inf).amax(1)
    nearest = distances.masked_fill(alike, torch.inf).amin(1)
    return nn.functional.relu(farthest - nearest + MARGIN).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    words = torch.randint(1, WORDS, (BATCH, LENGTH), device=DEVICE)
    topics = torch.arange(BATCH, device=DEVICE) % TOPICS
    while turns.step():
        points = embed(model, words)
        distances = 1 - points @ points.T
        alike = topics[:, None] == topics[None, :]
        mine = mine_by_rows if turns.planted else mine_at_once
        update(optimizer, mine(distances, alike))
