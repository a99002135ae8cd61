"""A sequence model; the cause launches its cells from Python, the fix replays them as a graph."""
# causes: host_bound, tiny_kernels
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, LENGTH, WIDTH = 128, 96, 512


class Cells(nn.Module):
    """A cell for each time, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        h = c = torch.zeros(BATCH, WIDTH, device=words.device)
        made = []
        for time in range(LENGTH):
            h, c = self.cell(words[time], (h, c))
            made.append(self.head(torch.tanh(h)))
        return torch.stack(made)


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Cells().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    words = torch.randn(LENGTH, BATCH, WIDTH, device=DEVICE)
    replayed = torch.cuda.make_graphed_callables(Cells().to(DEVICE), (words,))
    also = torch.optim.Adam(replayed.parameters(), lr=1e-3, fused=True)
    while turns.step():
        if turns.planted:
            update(optimizer, model(words).square().mean())
        else:
            update(also, replayed(words).square().mean())
