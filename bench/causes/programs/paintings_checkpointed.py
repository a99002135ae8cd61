"""Paintings drawn by a diffusion transformer (DiT); the cause computes blocks again (checkpoint).

The memory would hold all activations many times; the fix keeps them.
"""

# causes: recomputation
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from torch.utils.checkpoint import checkpoint
from turns import Turns

BATCH, PATCHES, CHANNELS, WIDTH, HEADS, LAYERS, STYLES = 32, 256, 16, 1024, 16, 12, 1000


class Block(nn.Module):
    """Attention and an MLP, scaled and shifted by time and style."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(approximate="tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        shift, scale, gate, shift2, scale2, gate2 = (
            self.modulation(condition)[:, None].chunk(6, dim=-1)
        )  # fmt: skip
        shape = (len(x), PATCHES, 3, HEADS, WIDTH // HEADS)
        qkv = self.qkv(self.norm(x) * (1 + scale) + shift).view(shape)
        y = nn.functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4))
        x = x + gate * self.out(y.transpose(1, 2).reshape(x.shape))
        return x + gate2 * self.mlp(self.norm(x) * (1 + scale2) + shift2)


class Painter(nn.Module):
    """Noise and paintings mixed, to the way from one to the other."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.places = nn.Linear(CHANNELS, WIDTH), nn.Embedding(PATCHES, WIDTH)
        self.style = nn.Embedding(STYLES, WIDTH)
        self.time = nn.Sequential(nn.Linear(1, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, CHANNELS)

    def forward(
        self, mixed: torch.Tensor, times: torch.Tensor, styles: torch.Tensor, again: bool
    ) -> torch.Tensor:
        x = self.patch(mixed) + self.places.weight
        condition = self.time(times) + self.style(styles)
        for block in self.blocks:
            if again:
                x = checkpoint(block, x, condition, use_reentrant=False)
            else:
                x = block(x, condition)
        return self.last(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Painter().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    paintings = torch.randn(BATCH, PATCHES, CHANNELS, device=DEVICE)
    styles = torch.randint(STYLES, (BATCH,), device=DEVICE)
    while turns.step():
        noise, times = torch.randn_like(paintings), torch.rand(BATCH, 1, device=DEVICE)
        mixed = torch.lerp(paintings, noise, times[:, :, None])
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found = model(mixed, times, styles, turns.planted)
        update(optimizer, nn.functional.mse_loss(found.float(), noise - paintings))
