"""Weather forecast from maps of twenty variables; the cause copies a pinned batch when its step begins.

The fix copies the next batch on a second stream while this one computes.
"""
# causes: exposed_copy
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, VARIABLES, ROWS, COLUMNS, PATCH, WIDTH, HEADS, LAYERS = 2, 20, 720, 1440, 8, 512, 8, 6
HIGH, WIDE, STORED = 15, 18, 3

Pair = tuple[torch.Tensor, torch.Tensor]


class Layer(nn.Module):
    """Attention in windows of HIGH x WIDE patches, and an MLP."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x).roll(self.shift, 2)).roll(-self.shift, 2)
        return x + self.mlp(self.norm2(x))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, width = x.shape
        windows = x.view(batch, rows // HIGH, HIGH, columns // WIDE, WIDE, width).transpose(2, 3)
        heads = self.qkv(windows.reshape(-1, HIGH * WIDE, width)).unflatten(-1, (3, HEADS, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        seen = self.out(seen.transpose(1, 2).flatten(2)).view(windows.shape)
        return seen.transpose(2, 3).reshape(x.shape)


class Forecaster(nn.Module):
    """Maps of now to maps of six hours later."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(VARIABLES, WIDTH, PATCH, PATCH)
        self.layers = nn.ModuleList(Layer(WIDE // 2 * (number % 2)) for number in range(LAYERS))
        self.last = nn.ConvTranspose2d(WIDTH, VARIABLES, PATCH, PATCH)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        x = self.first(maps).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        return self.last(x.permute(0, 3, 1, 2))


class Prefetcher:
    """Batches on the GPU, the next one copied while the last one is in use."""

    def __init__(self, stored: list[Pair]) -> None:
        self.stored, self.number = stored, 0
        self.stream = torch.cuda.Stream()
        self.ahead: Pair | None = None

    def copy(self) -> Pair:
        now, later = self.stored[self.number % len(self.stored)]
        self.number += 1
        return now.to(DEVICE, non_blocking=True), later.to(DEVICE, non_blocking=True)

    def start(self) -> Pair:
        with torch.cuda.stream(self.stream):
            return self.copy()

    def take(self) -> Pair:
        taken = self.ahead or self.start()
        torch.cuda.current_stream().wait_stream(self.stream)
        for maps in taken:
            maps.record_stream(torch.cuda.current_stream())
        self.ahead = self.start()
        return taken


def draw_maps() -> torch.Tensor:
    return torch.randn(BATCH, VARIABLES, ROWS, COLUMNS).pin_memory()


def run(turns: Turns) -> None:
    use_gpu(turns)
    batches = Prefetcher([(draw_maps(), draw_maps()) for _ in range(STORED)])
    model = Forecaster().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    while turns.step():
        now, later = batches.copy() if turns.planted else batches.take()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guesses = model(now)
        update(optimizer, nn.functional.mse_loss(guesses.float(), later))
