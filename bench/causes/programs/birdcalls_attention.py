"""A transformer names bird calls from mel frames; the cause is attention by products and a softmax.

The fix is `scaled_dot_product_attention`, which never writes the scores.
"""

# causes: unfused_attention
import torch
import torchaudio
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, RATE, SAMPLES, HOP, MELS = 16, 16_000, 163_680, 160, 80
WIDTH, HEADS, LAYERS, BIRDS = 512, 8, 6, 200


class Layer(nn.Module):
    """A layer whose attention is written out or fused."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, by_hand: bool) -> torch.Tensor:
        batch, length, _ = x.shape
        shape = (batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = self.qkv(self.norm1(x)).view(shape).permute(2, 0, 3, 1, 4)
        if by_hand:
            scores = q @ k.transpose(2, 3) * (WIDTH // HEADS) ** -0.5
            y = scores.softmax(dim=-1).to(v.dtype) @ v
        else:
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Namer(nn.Module):
    """Sounds to scores of birds."""

    def __init__(self) -> None:
        super().__init__()
        self.mels = torchaudio.transforms.MelSpectrogram(RATE, 512, hop_length=HOP, n_mels=MELS)
        self.enter, self.leave = nn.Linear(MELS, WIDTH), nn.Linear(WIDTH, BIRDS)
        self.places = nn.Parameter(0.02 * torch.randn(SAMPLES // HOP + 1, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, sounds: torch.Tensor, by_hand: bool) -> torch.Tensor:
        with torch.no_grad(), torch.autocast("cuda", enabled=False):
            mels = (self.mels(sounds) + 1e-5).log().transpose(1, 2)
        x = self.enter(mels) + self.places
        for layer in self.layers:
            x = layer(x, by_hand)
        return self.leave(x.mean(dim=1))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Namer().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    sounds = 0.1 * torch.randn(BATCH, SAMPLES, device=DEVICE)
    birds = torch.randint(BIRDS, (BATCH,), device=DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(sounds, turns.planted)
        update(optimizer, nn.functional.cross_entropy(scores.float(), birds))
