"""A transformer of a bank's columns in fp32; the fix lets its matrix products be in TF32."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, COLUMNS, VALUES, WIDTH, LAYERS = 384, 48, 1000, 320, 4


class Tabular(nn.Module):
    """A token for each column, and one for the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = nn.Parameter(0.02 * torch.randn(COLUMNS, WIDTH))
        self.offsets = nn.Parameter(0.02 * torch.randn(COLUMNS, WIDTH))
        self.kinds = nn.Embedding(COLUMNS * VALUES, WIDTH)
        self.answer = nn.Parameter(0.02 * torch.randn(1, 1, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 8, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, numbers: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        tokens = numbers[:, :, None] * self.numbers + self.offsets
        answer = self.answer.expand(len(numbers), -1, -1)
        tokens = torch.cat([answer, tokens, self.kinds(kinds)], 1)
        return self.head(self.layers(tokens)[:, 0])[:, 0]


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Tabular().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    numbers = torch.randn(BATCH, COLUMNS, device=DEVICE)
    kinds = torch.randint(COLUMNS * VALUES, (BATCH, COLUMNS), device=DEVICE)
    left = torch.randint(2, (BATCH,), device=DEVICE).float()
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        scores = model(numbers, kinds)
        update(optimizer, nn.functional.binary_cross_entropy_with_logits(scores, left))
