"""A masked autoencoder of video clips (as VideoMAE); the cause is the test of the loss in each step.

The training loop of MAE reads the loss before the backward pass, ends if it is not finite, and waits
for the GPU at the end of a step. The fix adds losses up on the GPU and tests their sum in each 100th.
Clips are cropped and their masks drawn in the main process, which needs less time than the GPU.
"""
# causes: synchronization, idle
import math

import numpy as np
import torch
from parts import DEVICE, repeat, use_gpu
from torch import nn
from torch.utils.data import DataLoader, Dataset
from turns import Turns

BATCH, FRAMES, SIZE, STORED, TUBE, PATCH = 16, 16, 160, 12, 2, 16
GRID = (FRAMES // TUBE, SIZE // PATCH, SIZE // PATCH)
TOKENS, KEPT, PIXELS = math.prod(GRID), 240, TUBE * PATCH * PATCH * 3
WIDTH, DEPTH, INNER, RISE = 1024, 16, 512, 4
TEST_EVERY = 100


class Clips(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Crops of clips in memory, and an order of their tokens: the first ones are seen."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.clips = random.integers(256, size=(STORED, 20, 200, 200, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = np.random.default_rng(index)
        first, (row, column) = random.integers(20 - FRAMES), random.integers(200 - SIZE, size=2)
        clip = self.clips[index % STORED, first : first + FRAMES]
        crop = clip[:, row : row + SIZE, column : column + SIZE]
        order = random.permutation(TOKENS)
        return torch.from_numpy(np.ascontiguousarray(crop)), torch.from_numpy(order)


def make_layers(width: int, depth: int) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        width, width // 64, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, depth, nn.LayerNorm(width), enable_nested_tensor=False)


def cut(clips: torch.Tensor) -> torch.Tensor:
    """The pixels of each tube of patches."""
    times, rows, columns = GRID
    x = clips.view(len(clips), times, TUBE, rows, PATCH, columns, PATCH, 3)
    x = x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(len(clips), TOKENS, PIXELS)
    return x.float() / 127.5 - 1


def pick(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return x.gather(1, places[..., None].expand(-1, -1, x.shape[-1]))


class Autoencoder(nn.Module):
    """Sees some tokens of a clip and fills in the others."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.shrink = nn.Linear(PIXELS, WIDTH), nn.Linear(WIDTH, INNER)
        self.encoder, self.decoder = make_layers(WIDTH, DEPTH), make_layers(INNER, RISE)
        self.places = nn.Parameter(0.02 * torch.randn(1, TOKENS, WIDTH))
        self.inner_places = nn.Parameter(0.02 * torch.randn(1, TOKENS, INNER))
        self.hidden = nn.Parameter(0.02 * torch.randn(1, 1, INNER))
        self.head = nn.Linear(INNER, PIXELS)

    def forward(self, tubes: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        seen, count = order[:, :KEPT], len(tubes)
        x = self.embed(pick(tubes, seen)) + pick(self.places.expand(count, -1, -1), seen)
        x = self.shrink(self.encoder(x))
        hidden = self.hidden.to(x.dtype).expand(count, TOKENS - KEPT, -1)
        x = pick(torch.cat([x, hidden], 1), order.argsort(1)) + self.inner_places
        return self.head(self.decoder(x))


class Engine:
    """Trains, and ends where the loss is not finite."""

    def __init__(self) -> None:
        with torch.device(DEVICE):
            self.model = Autoencoder()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        self.total, self.steps = torch.zeros((), device=DEVICE), 0

    def compute_loss(self, clips: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
        tubes = cut(clips)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            filled = self.model(tubes, order)
        return (filled.float() - tubes).square().mean(-1).gather(1, order[:, KEPT:]).mean()

    def test(self, value: float) -> None:
        if not math.isfinite(value):
            raise RuntimeError(f"Loss is {value}, stopping training")

    def train_step(self, clips: torch.Tensor, order: torch.Tensor, each: bool) -> None:
        loss = self.compute_loss(clips, order)
        self.total += loss.detach()
        self.steps += 1
        if each:
            self.test(loss.item())
        elif self.steps % TEST_EVERY == 0:
            self.test(self.total.item())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if each:
            torch.cuda.synchronize()


def run(turns: Turns) -> None:
    use_gpu(turns)
    engine = Engine()
    batches = repeat(DataLoader(Clips(), BATCH, num_workers=0, pin_memory=True))
    while turns.step():
        clips, order = (each.to(DEVICE, non_blocking=True) for each in next(batches))
        engine.train_step(clips, order, each=turns.planted)
