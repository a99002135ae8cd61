"""Large pictures decoded from latents tile by tile; the cause blends seams of tiles row by row.

So did the first tiled decoders of latent diffusion: each row and each column of a seam is four
small kernels. The fix blends a whole seam by one ramp of weights.
"""

# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

LATENT, TILE, STRIDE, SCALE, WIDTH, BLOCKS = 160, 64, 48, 8, 128, 3
SEAM, KEPT = (TILE - STRIDE) * SCALE // 2, STRIDE * SCALE


class Residual(nn.Module):
    """Three convolutions beside a path without any."""

    def __init__(self) -> None:
        super().__init__()
        convolutions = [nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(3)]
        first, second, third = convolutions
        self.layers = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.layers(x))


def make_decoder() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(4, WIDTH, 3, padding=1), nn.ReLU()]
    for _ in range(3):
        layers += [Residual() for _ in range(BLOCKS)]
        layers += [nn.Upsample(scale_factor=2), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)]
    layers.append(nn.Conv2d(WIDTH, 3, 3, padding=1))
    decoder = nn.Sequential(*layers).to(DEVICE, torch.bfloat16)
    return decoder.to(memory_format=torch.channels_last).eval()


def blend_by_rows(above: torch.Tensor, tile: torch.Tensor, dim: int) -> None:
    """Let a tile begin as the one above (dim 2) or left of it (dim 3) goes on."""
    for place in range(SEAM):
        share = place / SEAM
        row = tile.select(dim, place)
        row.copy_(above.select(dim, KEPT + place) * (1 - share) + row * share)


def blend_at_once(above: torch.Tensor, tile: torch.Tensor, dim: int) -> None:
    """As blend_by_rows."""
    shape = (-1, 1) if dim == 2 else (-1,)
    shares = (torch.arange(SEAM, device=DEVICE) / SEAM).to(tile.dtype).view(shape)
    seam = tile.narrow(dim, 0, SEAM)
    seam.copy_(torch.lerp(above.narrow(dim, KEPT, SEAM), seam, shares))


def decode_tiles(decoder: nn.Module, latent: torch.Tensor) -> list[list[torch.Tensor]]:
    starts = range(0, LATENT - TILE + 1, STRIDE)
    return [
        [decoder(latent[:, :, row : row + TILE, column : column + TILE]) for column in starts]
        for row in starts
    ]


def join(tiles: list[list[torch.Tensor]], planted: bool) -> torch.Tensor:
    blend = blend_by_rows if planted else blend_at_once
    for row, line in enumerate(tiles):
        for column, tile in enumerate(line):
            if row:
                blend(tiles[row - 1][column], tile, 2)
            if column:
                blend(line[column - 1], tile, 3)
    lines = [torch.cat([tile[:, :, :KEPT, :KEPT] for tile in line], 3) for line in tiles]
    return torch.cat(lines, 2)


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    decoder = make_decoder()
    latent = torch.randn(1, 4, LATENT, LATENT, device=DEVICE, dtype=torch.bfloat16)
    latent = latent.to(memory_format=torch.channels_last)
    picture = torch.empty(3, KEPT * 3, KEPT * 3, dtype=torch.uint8, device=DEVICE)
    while turns.step():
        joined = join(decode_tiles(decoder, latent), turns.planted)[0]
        picture.copy_(joined.float().mul(127.5).add(127.5).clamp(0, 255))
