"""A VQ-VAE under DDP; the cause adds up the ranks' use of its codes on the CPU, by gloo.

The fix adds it up on the GPUs, by NCCL.
"""
# causes: idle, pageable_copy, synchronization
import torch
from parts import DEVICE, update, use_ranks
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, SIZE, WIDTH, FEATURES, CODES, FORGET = 64, 128, 192, 256, 8192, 0.01


class Residual(nn.Module):
    """Two convolutions beside the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(16, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def make_encoder() -> nn.Module:
    """Images to features of an eighth of their size."""
    return nn.Sequential(
        nn.Conv2d(3, WIDTH, 4, 2, 1), Residual(WIDTH), nn.Conv2d(WIDTH, WIDTH, 4, 2, 1),
        Residual(WIDTH), Residual(WIDTH), nn.Conv2d(WIDTH, FEATURES, 4, 2, 1), Residual(FEATURES),
    )  # fmt: skip


def make_decoder() -> nn.Module:
    return nn.Sequential(
        Residual(FEATURES), nn.ConvTranspose2d(FEATURES, WIDTH, 4, 2, 1), Residual(WIDTH),
        Residual(WIDTH), nn.ConvTranspose2d(WIDTH, WIDTH, 4, 2, 1), Residual(WIDTH),
        nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1),
    )  # fmt: skip


class Codebook:
    """Codes that follow the mean of the features that are nearest to them, on all ranks."""

    def __init__(self) -> None:
        self.codes = torch.randn(CODES, FEATURES, device=DEVICE)
        distributed.broadcast(self.codes, 0)
        self.by_gloo = distributed.new_group(backend="gloo")

    def add_up(self, sums: torch.Tensor, on_cpu: bool) -> torch.Tensor:
        if on_cpu:
            sums = sums.cpu()
            distributed.all_reduce(sums, group=self.by_gloo)
            return sums.to(DEVICE)
        distributed.all_reduce(sums)
        return sums

    @torch.no_grad()
    def replace(self, features: torch.Tensor, on_cpu: bool) -> torch.Tensor:
        """The nearest code of each feature; the codes learn from these. The last column counts."""
        squares = self.codes.square().sum(1)
        nearest = torch.addmm(squares, features, self.codes.T, alpha=-2).argmin(1)
        counted = torch.cat([features, torch.ones_like(features[:, :1])], 1)
        sums = features.new_zeros(CODES, FEATURES + 1).index_add_(0, nearest, counted)
        sums = self.add_up(sums, on_cpu)
        counts = sums[:, -1:]
        means = torch.where(counts > 0, sums[:, :-1] / counts.clamp(min=1), self.codes)
        found = self.codes[nearest]
        self.codes.lerp_(means, FORGET)
        return found


class VqVae(nn.Module):
    """Images to codes and back, with the loss of both."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = make_encoder(), make_decoder()
        self.codebook = Codebook()

    def forward(self, images: torch.Tensor, on_cpu: bool) -> torch.Tensor:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            features = self.encoder(images)
        rows = features.float().permute(0, 2, 3, 1)
        codes = self.codebook.replace(rows.reshape(-1, FEATURES), on_cpu).view(rows.shape)
        passed = rows + (codes - rows).detach()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            copies = self.decoder(passed.permute(0, 3, 1, 2))
        return nn.functional.mse_loss(copies.float(), images) + nn.functional.mse_loss(rows, codes)


def run(turns: Turns) -> None:
    use_ranks(turns)
    torch.set_float32_matmul_precision("high")
    model = DistributedDataParallel(VqVae().to(DEVICE, memory_format=torch.channels_last))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    while turns.step():
        update(optimizer, model(images, turns.planted))
