"""Speech recognition by Conformer layers; the cause makes the mask of padded frames anew in each part of a layer.

The mask is made of the lengths as in ESPnet, by `tolist`. The fix makes it once a step.
"""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, FRAMES, BANDS, WIDTH, HEADS, LAYERS, LETTERS = 32, 400, 320, 512, 8, 12, 64


def mask_padding(lengths: torch.Tensor) -> torch.Tensor:
    """Whether a frame lies behind the end of its sentence; (batch, frames)."""
    counts = lengths.tolist()
    places = torch.arange(max(counts)).expand(len(counts), -1)
    return (places >= torch.tensor(counts)[:, None]).to(lengths.device)


class Part(nn.Module):
    """A part of a layer, with its norm, and without the padded frames."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        mask = mask_padding(lengths) if mask is None else mask
        return x + self.compute(self.norm(x), mask).masked_fill(mask[..., None], 0.0)

    def compute(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class FeedForward(Part):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def compute(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return 0.5 * self.narrow(nn.functional.silu(self.wide(x)))


class Attention(Part):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def compute(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, ~mask[:, None, None])
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Convolution(Part):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, 15, padding=7, groups=WIDTH)

    def compute(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = nn.functional.glu(self.gate(x)).masked_fill(mask[..., None], 0.0)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.out(nn.functional.silu(x))


class Encoder(nn.Module):
    """Spectra to scores of letters."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(BANDS, WIDTH), nn.Linear(WIDTH, LETTERS)
        kinds = (FeedForward, Attention, Convolution, FeedForward)
        self.parts = nn.ModuleList(kind() for _ in range(LAYERS) for kind in kinds)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        x = self.enter(x)
        for part in self.parts:
            x = part(x, lengths, mask)
        return self.leave(x)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Encoder().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    lengths = torch.randint(FRAMES // 2, FRAMES + 1, (BATCH,), device=DEVICE)
    lengths[0] = FRAMES
    spectra = torch.rand(BATCH, FRAMES, BANDS, device=DEVICE)
    letters = torch.randint(LETTERS, (BATCH, FRAMES), device=DEVICE)
    while turns.step():
        mask = None if turns.planted else mask_padding(lengths)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(spectra, lengths, mask)
        update(optimizer, nn.functional.cross_entropy(scores.flatten(0, 1).float(), letters.flatten()))
