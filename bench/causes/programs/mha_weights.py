"""Instruments in music told by nn.MultiheadAttention; the cause is that it returns its weights, as by default.

Nobody reads them, and they keep it from fused attention. The fix is `need_weights=False`.
"""
# causes: unfused_attention
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

CLIPS, FRAMES, BANDS, WIDTH, HEADS, LAYERS, INSTRUMENTS = 12, 1024, 128, 512, 8, 6, 40


class Layer(nn.Module):
    """Attention over all frames, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, needs_weights: bool) -> torch.Tensor:
        normed = self.norm1(x)
        seen, _ = self.attention(normed, normed, normed, need_weights=needs_weights)
        x = x + seen
        return x + self.mlp(self.norm2(x))


class Tagger(nn.Module):
    """Spectra of clips to scores of instruments."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(BANDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(FRAMES, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, INSTRUMENTS)

    def forward(self, spectra: torch.Tensor, needs_weights: bool) -> torch.Tensor:
        x = self.first(spectra) + self.places
        for layer in self.layers:
            x = layer(x, needs_weights)
        return self.head(x.mean(1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    spectra = torch.randn(CLIPS, FRAMES, BANDS, device=DEVICE)
    heard = torch.randint(2, (CLIPS, INSTRUMENTS), device=DEVICE).float()
    model = Tagger().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(spectra, turns.planted)
        loss = nn.functional.binary_cross_entropy_with_logits(scores.float(), heard)
        update(optimizer, loss)
