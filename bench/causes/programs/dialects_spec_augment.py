"""Dialects told from speech; the cause hides times and pitches of each recording by itself.

The fix (SpecAugment of a batch) hides all at once, by comparing places with the ends of masks.
"""

# causes: tiny_kernels, host_bound
import random

import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, TIMES, PITCHES, WIDTH, LAYERS, DIALECTS = 96, 400, 80, 384, 8, 24
MASKS = ((2, PITCHES, 27), (10, TIMES, 20))


class Listener(nn.Module):
    """Two strided convolutions, and a transformer over what they hear."""

    def __init__(self) -> None:
        super().__init__()
        self.ears = nn.Sequential(
            nn.Conv1d(PITCHES, WIDTH, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(WIDTH, WIDTH, 5, stride=2, padding=2), nn.GELU(),
        )  # fmt: skip
        layer = nn.TransformerEncoderLayer(
            WIDTH, 6, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, DIALECTS)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        heard = self.layers(self.ears(spectra).transpose(1, 2))
        return self.head(heard.mean(1))


def draw_mask(size: int, widest: int) -> tuple[int, int]:
    """The first and the end of what is hidden."""
    width = random.randint(1, widest)
    first = random.randint(0, size - width)
    return first, first + width


def hide_each(spectra: torch.Tensor) -> torch.Tensor:
    hidden = spectra.clone()
    for spectrum in hidden:
        for axis, (count, size, widest) in enumerate(MASKS):
            for _ in range(count):
                first, end = draw_mask(size, widest)
                spectrum.narrow(axis, first, end - first).zero_()
    return hidden


def hide_all(spectra: torch.Tensor) -> torch.Tensor:
    """As hide_each, drawn and compared on the GPU."""
    keep = []
    for count, size, widest in MASKS:
        widths = torch.randint(1, widest + 1, (BATCH, count, 1), device=DEVICE)
        firsts = (torch.rand(BATCH, count, 1, device=DEVICE) * (size - widths + 1)).long()
        places = torch.arange(size, device=DEVICE)
        masks = (places >= firsts) & (places < firsts + widths)
        keep.append(~masks.any(1))
    return spectra * (keep[0][:, :, None] & keep[1][:, None, :])


def run(turns: Turns) -> None:
    use_gpu(turns)
    random.seed(0)
    model = Listener().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    spectra = torch.randn(BATCH, PITCHES, TIMES, device=DEVICE)
    dialects = torch.randint(DIALECTS, (BATCH,), device=DEVICE)
    while turns.step():
        hidden = hide_each(spectra) if turns.planted else hide_all(spectra)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            scores = model(hidden)
        update(optimizer, nn.functional.cross_entropy(scores.float(), dialects))
