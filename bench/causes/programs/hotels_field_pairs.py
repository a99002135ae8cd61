"""Bookings of hotels told by a product network; the cause multiplies pairs of fields one by one.

The fix multiplies all fields by all, and takes the half over the diagonal.
"""

# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, FIELDS, VALUES, SIZE, WIDTH = 16384, 24, 20_000, 16, 4096


class Bookings(nn.Module):
    """Fields' vectors and the products of their pairs, to one score."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(FIELDS * VALUES, SIZE)
        firsts, seconds = torch.triu_indices(FIELDS, FIELDS, 1)
        self.pairs = list(zip(firsts.tolist(), seconds.tolist(), strict=True))
        self.register_buffer("starts", VALUES * torch.arange(FIELDS))
        self.register_buffer("places", FIELDS * firsts + seconds)
        width = FIELDS * SIZE + len(self.pairs)
        self.deep = nn.Sequential(
            nn.Linear(width + -width % 8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
            nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1),
        )  # fmt: skip
        self.spare = -width % 8

    def multiply_each(self, vectors: torch.Tensor) -> torch.Tensor:
        fields = vectors.unbind(1)
        products = [(fields[i] * fields[j]).sum(1) for i, j in self.pairs]
        return torch.stack(products, 1)

    def multiply_all(self, vectors: torch.Tensor) -> torch.Tensor:
        products = vectors @ vectors.transpose(1, 2)
        return products.flatten(1).index_select(1, self.places).float()

    def forward(self, values: torch.Tensor, each: bool) -> torch.Tensor:
        vectors = self.table(values + self.starts)
        products = self.multiply_each(vectors) if each else self.multiply_all(vectors)
        known = torch.cat([vectors.flatten(1), products], 1)
        return self.deep(nn.functional.pad(known, (0, self.spare))).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Bookings().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    values = torch.randint(VALUES, (BATCH, FIELDS), device=DEVICE)
    booked = torch.randint(2, (BATCH,), device=DEVICE).float()
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(values, turns.planted)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), booked)
        update(optimizer, loss)
