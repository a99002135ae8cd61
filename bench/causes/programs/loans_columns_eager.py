"""Loans that fail, told from columns of a table by an FT-Transformer; the cause writes attention out.

So does the code of its publication: scores of all pairs of columns, a softmax, dropout, a product.
The fix calls `F.scaled_dot_product_attention`.
"""

# causes: unfused_attention
import torch
import torch.nn.functional as F
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

ROWS, COLUMNS, WIDTH, HEADS, LAYERS, DROPOUT, STORED = 512, 127, 256, 8, 4, 0.1, 8


class Tokens(nn.Module):
    """A vector for each number of a row, after one for the whole row."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(COLUMNS + 1, WIDTH))
        self.bias = nn.Parameter(0.1 * torch.randn(COLUMNS + 1, WIDTH))

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return F.pad(numbers, (1, 0), value=1.0)[..., None] * self.weight + self.bias


class Layer(nn.Module):
    """Attention between the columns of a row, and a gated network."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, by_hand: bool) -> torch.Tensor:
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attend = attend_by_hand if by_hand else attend_fused
        x = x + self.out(attend(*qkv).transpose(1, 2).flatten(2))
        values, gates = self.wide(self.norm2(x)).chunk(2, dim=-1)
        return x + self.narrow(values * gates.relu())


def attend_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    shares = F.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1)
    return F.dropout(shares, DROPOUT) @ v


def attend_fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT)


class FtTransformer(nn.Module):
    """Rows of numbers to the chance that a loan fails."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = Tokens()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, numbers: torch.Tensor, by_hand: bool) -> torch.Tensor:
        x = self.tokens(numbers)
        for layer in self.layers:
            x = layer(x, by_hand)
        return self.head(self.norm(x[:, 0])).squeeze(1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = FtTransformer().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=1e-5, fused=True)
    loans = torch.randn(STORED, ROWS, COLUMNS, device=DEVICE)
    failed = (torch.rand(STORED, ROWS, device=DEVICE) < 0.1).float()
    steps = 0
    while turns.step():
        number = steps % STORED
        steps += 1
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(loans[number], turns.planted)
        update(optimizer, F.binary_cross_entropy_with_logits(found.float(), failed[number]))
