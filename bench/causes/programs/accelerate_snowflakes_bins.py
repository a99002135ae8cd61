"""Accelerate trains a diffusion model; the cause reads each sample's loss on the host for a table.

The table has the sum of losses by noise level. The fix adds them up on the GPU.
"""

# causes: synchronization
import torch
from accelerate import Accelerator
from parts import use_gpu
from torch import nn
from turns import Turns

BATCH, TOKENS, PATCH, WIDTH, LAYERS, LEVELS, BINS = 96, 256, 48, 512, 6, 1000, 20


class Denoiser(nn.Module):
    """Patches of pictures with noise, and the noise level, to the noise."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(PATCH, WIDTH), nn.Linear(WIDTH, PATCH)
        self.places = nn.Parameter(0.02 * torch.randn(TOKENS, WIDTH))
        self.levels = nn.Embedding(LEVELS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                WIDTH, 8, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            for _ in range(LAYERS)
        )

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        x = self.enter(x) + self.places + self.levels(level)[:, None]
        for layer in self.layers:
            x = layer(x)
        return self.leave(x)


class Table:
    """The sum of losses of each bin of noise levels."""

    def __init__(self, device: torch.device) -> None:
        self.on_host = [0.0] * BINS
        self.on_gpu = torch.zeros(BINS, device=device)

    def read_each(self, levels: torch.Tensor, losses: torch.Tensor) -> None:
        for level, loss in zip(levels, losses, strict=True):
            self.on_host[level.item() * BINS // LEVELS] += loss.item()

    def add_all(self, levels: torch.Tensor, losses: torch.Tensor) -> None:
        self.on_gpu.index_add_(0, levels * BINS // LEVELS, losses)


def run(turns: Turns) -> None:
    use_gpu(turns)
    accelerator = Accelerator(mixed_precision="bf16")
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    device = accelerator.device
    table = Table(device)
    flakes = torch.randn(BATCH, TOKENS, PATCH, device=device)
    shares = torch.linspace(0.999, 0.01, LEVELS, device=device)
    while turns.step():
        levels = torch.randint(LEVELS, (BATCH,), device=device)
        noise = torch.randn_like(flakes)
        share = shares[levels][:, None, None]
        found = model(share.sqrt() * flakes + (1 - share).sqrt() * noise, levels)
        losses = (found.float() - noise).square().mean(dim=(1, 2))
        add = table.read_each if turns.planted else table.add_all
        add(levels, losses.detach())
        accelerator.backward(losses.mean())
        optimizer.step()
        optimizer.zero_grad()
