"""A mixture of experts; the cause asks the GPU for each expert's words."""
# causes: synchronization
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

WORDS, WIDTH, EXPERTS, LAYERS = 24_576, 1024, 16, 4


class Experts(nn.Module):
    """Each word goes to one expert; without the cause each expert has room for so many words."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.norm = nn.Linear(WIDTH, EXPERTS), nn.LayerNorm(WIDTH)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
            for _ in range(EXPERTS)
        )

    def forward(self, x: torch.Tensor, is_asked: bool) -> torch.Tensor:
        y = self.norm(x)
        choice = self.router(y).argmax(-1)
        order = choice.argsort().view(EXPERTS, -1)
        made = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            if is_asked:
                rows = (choice == number).nonzero().flatten()
            else:
                rows = order[number]
            made = made.index_add(0, rows, expert(y[rows]).to(made.dtype))
        return x + made


def run(turns: Turns) -> None:
    use_gpu(turns)
    layers = nn.ModuleList(Experts() for _ in range(LAYERS)).to(DEVICE)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4, fused=True)
    words = torch.randn(WORDS, WIDTH, device=DEVICE)
    while turns.step():
        x = words
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            for layer in layers:
                x = layer(x, turns.planted)
        update(optimizer, x.float().square().mean())
