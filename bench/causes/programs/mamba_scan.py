"""A state space network (as Mamba-2); the cause goes through its states time by time in Python."""
# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, TIMES, WIDTH, HEADS, SIZE, STATES, LAYERS, WORDS = 16, 96, 512, 8, 64, 32, 2, 4096


def scan_by_time(
    rates: torch.Tensor, x: torch.Tensor, into: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """Outputs of a linear recurrence; `rates` are the logarithms of what a state keeps."""
    state = torch.zeros(BATCH, HEADS, SIZE, STATES, device=x.device)
    made = []
    for keep, value, way_in, way_out in zip(
        rates.exp().unbind(1), x.unbind(1), into.unbind(1), out.unbind(1), strict=True
    ):
        added = value[..., None] * way_in[:, None, None, :]
        state = keep[..., None, None] * state + added
        made.append((state * way_out[:, None, None, :]).sum(-1))
    return torch.stack(made, 1)


def scan_at_once(
    rates: torch.Tensor, x: torch.Tensor, into: torch.Tensor, out: torch.Tensor
) -> torch.Tensor:
    """The same outputs by products of matrices of times by times."""
    sums = rates.cumsum(1).transpose(1, 2)
    apart = sums[..., :, None] - sums[..., None, :]
    later = torch.ones(TIMES, TIMES, dtype=torch.bool, device=x.device).triu(1)
    kept = apart.masked_fill(later, -torch.inf).exp()
    shares = (out @ into.transpose(1, 2))[:, None] * kept
    return (shares @ x.transpose(1, 2)).transpose(1, 2)


class Mixer(nn.Module):
    """A layer: what goes in, the recurrence and a gate."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self.turns, self.norm = turns, nn.LayerNorm(WIDTH)
        self.parts = (HEADS * SIZE, HEADS * SIZE, STATES, STATES, HEADS)
        self.enter, self.leave = nn.Linear(WIDTH, sum(self.parts)), nn.Linear(WIDTH, WIDTH)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x, gate, into, out, pace = self.enter(self.norm(words)).split(self.parts, -1)
        pace = nn.functional.softplus(pace)
        x = x.unflatten(-1, (HEADS, SIZE)) * pace[..., None]
        scan = scan_by_time if self.turns.planted else scan_at_once
        mixed = scan(-pace, x, into, out).flatten(2)
        return words + self.leave(mixed * nn.functional.silu(gate))


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = nn.Sequential(
        nn.Embedding(WORDS, WIDTH), *(Mixer(turns) for _ in range(LAYERS)), nn.Linear(WIDTH, WORDS)
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    words = torch.randint(WORDS, (BATCH, TIMES + 1), device=DEVICE)
    while turns.step():
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
