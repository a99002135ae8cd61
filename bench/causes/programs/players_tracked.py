"""Players followed through a match with a memory of frames (as SAM 2), launched from Python.

The kernels of a frame are short, so the GPU waits for launches. The fix replays a CUDA graph.
"""

# causes: host_bound
import timm
import torch
from parts import DEVICE, run_eager_or_graph, use_gpu
from torch import nn
from turns import Turns

PLAYERS, SIZE, WIDTH, HEADS, MEMORY, LAYERS, FRAMES = 3, 384, 384, 6, 6, 4, 8
PLACES = (SIZE // 16) ** 2


class Attention(nn.Module):
    """Attention of one set of vectors to another."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.query = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.pair, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, seen: torch.Tensor | None = None) -> torch.Tensor:
        normed = self.norm(x)
        pair = self.pair(normed if seen is None else seen)
        vectors = (self.query(normed), *pair.chunk(2, dim=-1))
        heads = [each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in vectors]
        y = nn.functional.scaled_dot_product_attention(*heads)
        return x + self.out(y.transpose(1, 2).flatten(2))


class MemoryLayer(nn.Module):
    """Places of a frame look at each other and at the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.past = Attention(), Attention()
        self.mlp = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
        )  # fmt: skip

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        x = self.past(self.own(x), memory)
        return x + self.mlp(x)


class Tracker(nn.Module):
    """Masks of players in a frame, by a memory of frames and masks before it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = timm.create_model("vit_small_patch16_384", num_classes=0, img_size=SIZE)
        self.layers = nn.ModuleList(MemoryLayer() for _ in range(LAYERS))
        self.larger = nn.ConvTranspose2d(WIDTH, 64, 4, stride=4)
        self.mask, self.keep = nn.Conv2d(64, 1, 3, padding=1), nn.Linear(WIDTH + 16, WIDTH)
        memory = torch.randn(PLAYERS, MEMORY * PLACES, WIDTH)
        self.register_buffer("memory", memory)

    def forward(self, frame: torch.Tensor) -> torch.Tensor:
        seen = self.encoder.forward_features(frame)[:, 1:]
        x = seen.expand(PLAYERS, -1, -1)
        for layer in self.layers:
            x = layer(x, self.memory)
        maps = x.transpose(1, 2).unflatten(2, (SIZE // 16, -1))
        masks = self.mask(nn.functional.gelu(self.larger(maps)))
        small = nn.functional.pixel_unshuffle(masks, 4).flatten(2).transpose(1, 2)
        new = self.keep(torch.cat([seen.expand(PLAYERS, -1, -1), small.sigmoid()], -1))
        self.memory.copy_(torch.cat([self.memory[:, PLACES:], new], 1))
        return masks > 0


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    tracker = Tracker().to(DEVICE, torch.bfloat16).eval()
    film = torch.rand(FRAMES, 1, 3, SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
    pixels = torch.zeros(PLAYERS, dtype=torch.int64, device=DEVICE)

    def follow() -> None:
        for frame in film:
            pixels.add_(tracker(frame).sum((1, 2, 3)))

    run_eager_or_graph(turns, follow)
