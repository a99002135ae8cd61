"""Speech recognition by CTC; the cause sums over alignments time by time in Python.

The fix calls torch's own loss.
"""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, Block, update, use_gpu
from torch import nn
from turns import Turns

CLIPS, FRAMES, BANDS, WIDTH, LAYERS, SIGNS, LENGTH, NEVER = 32, 400, 80, 512, 6, 128, 40, -1e4
TIMES = FRAMES // 4


class Recognizer(nn.Module):
    """Spectra of shape (clips, bands, frames) to logits of shape (clips, times, signs)."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = nn.Sequential(
            nn.Conv1d(BANDS, WIDTH, 3, 2, 1), nn.GELU(), nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.GELU()
        )
        self.blocks = nn.Sequential(*(Block(WIDTH, 8) for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, SIGNS)

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.begin(spectra).transpose(1, 2)))


def sum_alignments(logs: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    """The mean CTC loss; logs: (times, clips, signs), sign 0 is the blank."""
    spread = signs.new_zeros(len(signs), 2 * LENGTH + 1)
    spread[:, 1::2] = signs
    repeated = torch.ones_like(spread, dtype=torch.bool)
    repeated[:, 2:] = (spread[:, 2:] == spread[:, :-2]) | (spread[:, 2:] == 0)
    fits = logs.gather(2, spread.expand(len(logs), -1, -1))
    start = torch.full_like(fits[0], NEVER)
    start[:, :2] = 0
    reached = start + fits[0]
    for fit in fits[1:]:
        one = nn.functional.pad(reached[:, :-1], (1, 0), value=NEVER)
        two = nn.functional.pad(reached[:, :-2], (2, 0), value=NEVER)
        ways = torch.logaddexp(reached, one)
        reached = torch.logaddexp(ways, two.masked_fill(repeated, NEVER)) + fit
    return -(torch.logaddexp(reached[:, -1], reached[:, -2]) / LENGTH).mean()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Recognizer().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    spectra = torch.randn(CLIPS, BANDS, FRAMES, device=DEVICE)
    signs = torch.randint(1, SIGNS, (CLIPS, LENGTH), device=DEVICE)
    times, lengths = (TIMES,) * CLIPS, (LENGTH,) * CLIPS
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(spectra)
        logs = logits.float().log_softmax(-1).transpose(0, 1)
        if turns.planted:
            loss = sum_alignments(logs, signs)
        else:
            loss = nn.functional.ctc_loss(logs, signs, times, lengths)
        update(optimizer, loss)
