"""The next item of a session (GRU4Rec); the cause goes through clicks by a cell in Python, the fix by `nn.GRU`."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, CLICKS, ITEMS, WIDTH, LAYERS = 320, 60, 24_000, 512, 2


class Sessions(nn.Module):
    """Clicked items to scores of the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, LAYERS)
        self.head = nn.Linear(WIDTH, ITEMS)

    def forward(self, clicks: torch.Tensor, *, has_cells: bool) -> torch.Tensor:
        x = self.items(clicks)
        states = self.walk(x) if has_cells else self.gru(x)[0]
        return self.head(states)

    def walk(self, x: torch.Tensor) -> torch.Tensor:
        """The states of the last layer, time by time."""
        for weights in self.gru.all_weights:
            state, states = x.new_zeros(x.shape[1:]), []
            for step in x:
                state = torch.gru_cell(step, state, *weights)
                states.append(state)
            x = torch.stack(states)
        return x


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Sessions().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    clicks = torch.randint(ITEMS, (CLICKS + 1, BATCH), device=DEVICE)
    while turns.step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(clicks[:-1], has_cells=turns.planted)
        update(optimizer, nn.functional.cross_entropy(scores.flatten(0, 1).float(), clicks[1:].flatten()))
