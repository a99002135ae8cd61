"""Words drawn for the requests of a server; the cause draws them request by request.

The fix has the settings in tensors, and draws for all requests at once.
"""
# causes: tiny_kernels, host_bound
from dataclasses import dataclass

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

REQUESTS, WIDTH, LAYERS, WORDS, PAST = 48, 1024, 12, 32_000, 256


@dataclass
class Settings:
    """How the words of a request are drawn."""

    heat: float
    top_k: int
    top_p: float
    penalty: float


def draw_one(logits: torch.Tensor, past: torch.Tensor, settings: Settings) -> torch.Tensor:
    """The next word of a request."""
    seen = logits[past]
    seen = torch.where(seen > 0, seen / settings.penalty, seen * settings.penalty)
    logits = logits.scatter(0, past, seen) / settings.heat
    values, words = logits.topk(settings.top_k)
    chances = values.softmax(-1)
    chances = torch.where(chances.cumsum(-1) - chances > settings.top_p, 0, chances)
    return words[torch.multinomial(chances, 1)]


def draw_all(logits: torch.Tensor, past: torch.Tensor, settings: torch.Tensor) -> torch.Tensor:
    """As draw_one, for all requests; settings: (4, requests, 1)."""
    heat, top_k, top_p, penalty = settings
    seen = logits.gather(1, past)
    seen = torch.where(seen > 0, seen / penalty, seen * penalty)
    values, words = (logits.scatter(1, past, seen) / heat).topk(100)
    values = values.masked_fill(torch.arange(100, device=DEVICE) >= top_k, -torch.inf)
    chances = values.softmax(-1)
    chances = torch.where(chances.cumsum(-1) - chances > top_p, 0, chances)
    return words.gather(1, torch.multinomial(chances, 1)).flatten()


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = [
        (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(LAYERS)
    ]
    network = nn.Sequential(
        nn.Embedding(WORDS, WIDTH), *(part for layer in layers for part in layer),
        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False),
    ).to(DEVICE).bfloat16()  # fmt: skip
    all_settings = [
        Settings(0.6 + 0.01 * i, 20 + i, 0.8 + 0.004 * i, 1 + 0.005 * i) for i in range(REQUESTS)
    ]
    columns = torch.tensor([list(vars(each).values()) for each in all_settings], device=DEVICE).T[
        ..., None
    ]
    past = torch.randint(WORDS, (REQUESTS, PAST), device=DEVICE)
    steps = 0
    while turns.step():
        logits = network(past[:, steps % PAST]).float()
        if turns.planted:
            rows = zip(logits, past, all_settings, strict=True)
            words = torch.cat([draw_one(*row) for row in rows])
        else:
            words = draw_all(logits, past, columns)
        steps += 1
        past[:, steps % PAST] = words
