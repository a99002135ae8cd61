"""A recommender with cross layers (DCN-v2) in fp32; the cause leaves its products off TF32."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, FIELDS, ROWS, WIDTH, NUMBERS, CROSSES = 8192, 32, 150_000, 64, 13, 3
WIDE = FIELDS * WIDTH + 64


class Dcn(nn.Module):
    """Embeddings, cross layers beside an MLP, and a click's logit."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(FIELDS * ROWS, WIDTH)
        self.register_buffer("first", ROWS * torch.arange(FIELDS))
        self.numbers = nn.Linear(NUMBERS, 64)
        self.crosses = nn.ModuleList(nn.Linear(WIDE, WIDE) for _ in range(CROSSES))
        self.deep = nn.Sequential(
            nn.Linear(WIDE, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(),
            nn.Linear(1024, 512), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(WIDE + 512, 1)

    def forward(self, numbers: torch.Tensor, fields: torch.Tensor) -> torch.Tensor:
        wide = torch.cat([self.table(fields + self.first).flatten(1), self.numbers(numbers)], 1)
        x = wide
        for cross in self.crosses:
            x = wide * cross(x) + x
        return self.head(torch.cat([x, self.deep(wide)], 1)).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    with torch.device(DEVICE):
        model = Dcn()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    numbers = torch.randn(BATCH, NUMBERS, device=DEVICE)
    fields = torch.randint(ROWS, (BATCH, FIELDS), device=DEVICE)
    clicks = torch.randint(2, (BATCH,), device=DEVICE).float()
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        logits = model(numbers, fields)
        update(optimizer, nn.functional.binary_cross_entropy_with_logits(logits, clicks))
