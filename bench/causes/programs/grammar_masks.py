"""A language model that answers in a grammar; the cause finds the words that may follow in Python.

Each token is a CUDA graph's. The fix keeps the grammar's states and the words of each on the GPU.
"""
# causes: idle, synchronization
import random

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, WIDTH, HEADS, LAYERS, WORDS, PAST, STATES, ALLOWED = 8, 2048, 16, 16, 16_384, 512, 24, 600


class Layer(nn.Module):
    """A transformer layer for one token, with the keys and values of the last PAST ones."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        shape = (BATCH, HEADS, PAST, WIDTH // HEADS)
        self.register_buffer("keys", torch.zeros(shape))
        self.register_buffer("values", torch.zeros(shape))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, 3, HEADS, 1, -1).unbind(1)
        self.keys.index_copy_(2, place, k)
        self.values.index_copy_(2, place, v)
        seen = nn.functional.scaled_dot_product_attention(q, self.keys, self.values)
        x = x + self.out(seen.reshape(BATCH, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    """Words to the logits of the next ones."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        x = self.embedding(words)
        for layer in self.layers:
            x = layer(x, place)
        place.copy_((place + 1) % PAST)
        return self.head(self.norm(x))


def make_grammar() -> list[dict[int, int]]:
    """For each state the words that may follow, and the state behind each of them."""
    draw = random.Random(0)
    return [
        {word: draw.randrange(STATES) for word in draw.sample(range(WORDS), ALLOWED)}
        for _ in range(STATES)
    ]


def find_mask(grammar: list[dict[int, int]], states: list[int]) -> torch.Tensor:
    """0 for the words that may follow, and minus infinity for the others."""
    mask = torch.full((len(states), WORDS), -torch.inf)
    for row, state in zip(mask, states, strict=True):
        row[torch.tensor(sorted(grammar[state]))] = 0
    return mask.to(DEVICE)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Model().to(DEVICE, torch.bfloat16).eval()
    words = torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
    place = torch.zeros(1, dtype=torch.long, device=DEVICE)
    for _ in range(3):
        model(words, place)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = model(words, place).float()
    grammar = make_grammar()
    masks = find_mask(grammar, list(range(STATES)))
    following = torch.zeros(STATES, WORDS, dtype=torch.long)
    for state, allowed in enumerate(grammar):
        for word, then in allowed.items():
            following[state, word] = then
    following = following.to(DEVICE)
    states, on_gpu = [0] * BATCH, torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
    while turns.step():
        graph.replay()
        if turns.planted:
            words.copy_((logits + find_mask(grammar, states)).argmax(-1))
            states = [
                grammar[state][word] for state, word in zip(states, words.tolist(), strict=True)
            ]
        else:
            words.copy_((logits + masks[on_gpu]).argmax(-1))
            on_gpu = following[on_gpu, words]
