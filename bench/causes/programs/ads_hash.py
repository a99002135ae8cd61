"""Ads ranked for the visitors of a page; the cause hashes the ads' texts in Python for each request.

The fix keeps the hashes of all ads on the GPU, computed when the ads were loaded.
"""
# causes: idle
import random
import zlib

import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

ADS, FIELDS, ROWS, FEATURES, WIDTH = 20_000, 8, 100_000, 64, 1024
VISITORS, CANDIDATES, REQUESTS, SHOWN = 128, 1536, 32, 10


def hash_ads(ads: list[list[str]]) -> torch.Tensor:
    """The row of each field of each ad in its table, of shape (ads, fields)."""
    return torch.tensor([[zlib.crc32(text.encode()) % ROWS for text in ad] for ad in ads])


class Ranker(nn.Module):
    """Tables of the fields, layers that cross them with the visitor, and a score for each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.Embedding(FIELDS * ROWS, FEATURES)
        self.ad, self.visitor = nn.Linear(FIELDS * FEATURES, WIDTH), nn.Linear(256, WIDTH)
        self.crosses = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.deep = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH), nn.ReLU()
        )
        self.last = nn.Linear(WIDTH, 1)
        self.register_buffer("starts", torch.arange(FIELDS) * ROWS)

    def forward(self, visitors: torch.Tensor, fields: torch.Tensor) -> torch.Tensor:
        """Scores of shape (visitors, ads)."""
        ads = self.ad(self.tables(fields + self.starts).flatten(1))
        first = x = self.visitor(visitors)[:, None] * ads
        for cross in self.crosses:
            x = first * cross(x) + x
        return self.last(self.deep(x)).squeeze(2)


def draw_ads() -> list[list[str]]:
    fields = ("title", "brand", "category", "colour", "shop", "place", "season", "picture")
    return [[f"{field}={random.randrange(1_000_000):x}" for field in fields] for _ in range(ADS)]


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    ads = draw_ads()
    hashed = hash_ads(ads).to(DEVICE)
    model = Ranker().to(DEVICE).bfloat16().eval()
    requests = [random.sample(range(ADS), CANDIDATES) for _ in range(REQUESTS)]
    shown = []
    while turns.step():
        found = requests[len(shown) % REQUESTS]
        visitors = torch.randn(VISITORS, 256, device=DEVICE, dtype=torch.bfloat16)
        if turns.planted:
            fields = hash_ads([ads[ad] for ad in found]).to(DEVICE)
        else:
            fields = hashed[torch.tensor(found).to(DEVICE)]
        best = model(visitors, fields).topk(SHOWN).indices.tolist()
        shown.append([[found[place] for place in row] for row in best])
