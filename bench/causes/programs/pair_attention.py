"""Structures of proteins: attention with a bias for each pair of residues; the cause writes it out.

Products, a bias and a softmax pass through memory. The fix calls scaled_dot_product_attention.
"""
# causes: unfused_attention
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH, PAIR, HEADS, LAYERS, CLASSES = 16, 640, 512, 32, 16, 6, 37


class PairAttention(nn.Module):
    """Attention of residues, with a bias from their pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkvg = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.bias, self.out = nn.Linear(PAIR, HEADS, bias=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, pairs: torch.Tensor, planted: bool) -> torch.Tensor:
        parts = self.qkvg(self.norm(x)).view(BATCH, LENGTH, 4, HEADS, -1)
        q, k, v, gate = parts.permute(2, 0, 3, 1, 4)
        bias = self.bias(pairs).permute(0, 3, 1, 2)
        if planted:
            scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
            mixed = scores.softmax(-1).to(v.dtype) @ v
        else:
            bias = bias.to(q.dtype).contiguous()
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, bias)
        mixed = mixed * gate.sigmoid()
        return self.out(mixed.transpose(1, 2).flatten(2))


class Structure(nn.Module):
    """Layers of attention and networks, and the kind of each residue's surrounding."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(PairAttention() for _ in range(LAYERS))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
                          nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(LAYERS)
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor, pairs: torch.Tensor, planted: bool) -> torch.Tensor:
        for attention, mlp in zip(self.attentions, self.mlps, strict=True):
            x = x + attention(x, pairs, planted)
            x = x + mlp(x)
        return self.head(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Structure().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    residues = torch.randn(BATCH, LENGTH, WIDTH, device=DEVICE)
    pairs = torch.randn(BATCH, LENGTH, LENGTH, PAIR, device=DEVICE, dtype=torch.bfloat16)
    labels = torch.randint(CLASSES, (BATCH * LENGTH,), device=DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(residues, pairs, turns.planted)
        update(optimizer, nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels))
