"""Next items of sessions under DDP; a table of fixed features is a buffer, sent in each forward.

The fix sets broadcast_buffers=False: the table is the same on all ranks, and never changes.
"""
# causes: exposed_communication
import torch
from parts import DEVICE, Block, update, use_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, LENGTH, ITEMS, FEATURES, WIDTH, LAYERS = 320, 128, 1_000_000, 512, 512, 8
WARMTH = 0.1


class Sessions(nn.Module):
    """Items that a visitor saw, by the features of their pictures, and the one that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("features", torch.randn(ITEMS, FEATURES, device=DEVICE))
        self.item, self.places = nn.Linear(FEATURES, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(WIDTH, 8) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, seen: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """The score of each visitor's next item, and of those of the others in the batch."""
        x = self.item(self.features[seen]) + self.places.weight
        for block in self.blocks:
            x = block(x)
        wishes = nn.functional.normalize(self.norm(x[:, -1]), dim=1)
        items = nn.functional.normalize(self.item(self.features[following]), dim=1)
        return wishes @ items.T / WARMTH


def run(turns: Turns) -> None:
    use_ranks(turns)
    model = DistributedDataParallel(Sessions().to(DEVICE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seen = torch.randint(ITEMS, (BATCH, LENGTH), device=DEVICE)
    following = torch.randint(ITEMS, (BATCH,), device=DEVICE)
    own = torch.arange(BATCH, device=DEVICE)
    while turns.step():
        model.broadcast_buffers = turns.planted
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(seen, following)
        update(optimizer, nn.functional.cross_entropy(scores.float(), own))
