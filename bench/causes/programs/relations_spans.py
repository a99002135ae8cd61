"""Relations of persons and places in sentences (ERNIE of transformers); the cause pools each sentence's two spans by itself.

Their bounds lie on the GPU, so each slice waits for it. The fix takes the means of all spans by one
product with a mask.
"""
# causes: synchronization, tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from torch import nn
from transformers import ErnieConfig, ErnieModel
from turns import Turns

BATCH, LENGTH, WIDTH, LAYERS, WORDS, RELATIONS, LONGEST, STORED = 64, 160, 768, 8, 12_000, 42, 8, 512


def pool_one_by_one(hidden: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The mean of each span: (sentences, 2, width)."""
    rows = []
    for row, start, end in zip(hidden, starts, ends, strict=True):
        subject = row[start[0] : end[0]].mean(0)
        other = row[start[1] : end[1]].mean(0)
        rows.append(torch.stack([subject, other]))
    return torch.stack(rows)


def pool_at_once(hidden: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """As pool_one_by_one."""
    places = torch.arange(hidden.shape[1], device=hidden.device)
    mask = (places >= starts[..., None]) & (places < ends[..., None])
    weights = mask.to(hidden.dtype) / (ends - starts)[..., None]
    return torch.bmm(weights.to(hidden.dtype), hidden)


class Relations(nn.Module):
    """Sentences with two spans each to the scores of relations."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns = turns
        config = ErnieConfig(
            vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=12,
            intermediate_size=4 * WIDTH, max_position_embeddings=LENGTH,
        )  # fmt: skip
        self.encoder = ErnieModel(config, add_pooling_layer=False)
        self.head = nn.Sequential(
            nn.Linear(2 * WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDTH, RELATIONS)
        )

    def forward(
        self, words: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor
    ) -> torch.Tensor:
        hidden = self.encoder(input_ids=words).last_hidden_state
        pool = pool_one_by_one if self.turns.planted else pool_at_once
        return self.head(pool(hidden, starts, ends).flatten(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Relations(turns).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    criterion = nn.CrossEntropyLoss()
    words = torch.randint(WORDS, (STORED, LENGTH), device=DEVICE)
    starts = torch.randint(LENGTH - LONGEST, (STORED, 2), device=DEVICE)
    ends = starts + torch.randint(1, LONGEST, (STORED, 2), device=DEVICE)
    relations = torch.randint(RELATIONS, (STORED,), device=DEVICE)
    first = 0
    while turns.step():
        part = slice(first, first + BATCH)
        first = (first + BATCH) % STORED
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(words[part], starts[part], ends[part])
        loss = criterion(logits.float(), relations[part])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
