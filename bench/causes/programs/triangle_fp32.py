"""The pairs of a protein's residues (as in AlphaFold); the cause multiplies triangles in fp32.

All else is bf16; these products leave autocast, lest their sums overflow. The fix allows TF32.
"""
# causes: no_tensor_cores
import torch
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

RESIDUES, WIDTH, BLOCKS, BINS = 384, 128, 6, 64


class Triangles(nn.Module):
    """Each pair changed by the two other sides of all triangles that it is a side of."""

    def __init__(self, sides: str) -> None:
        super().__init__()
        self.sides = sides
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.gate, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        x = self.before(pairs)
        first, second = nn.functional.glu(self.first(x)), nn.functional.glu(self.second(x))
        with torch.autocast(DEVICE, enabled=False):
            sums = torch.einsum(self.sides, first.float(), second.float())
        return pairs + torch.sigmoid(self.gate(x)) * self.out(self.after(sums))


class Transition(nn.Module):
    """A network of two layers for each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return pairs + self.down(torch.relu(self.up(self.norm(pairs))))


def make_model() -> nn.Sequential:
    """Pairs of residues to the logits of the distance of each."""
    layers: list[nn.Module] = []
    for _ in range(BLOCKS):
        layers += [Triangles("ikc,jkc->ijc"), Triangles("kic,kjc->ijc"), Transition()]
    return nn.Sequential(*layers, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BINS)).to(DEVICE)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    pairs = torch.randn(RESIDUES, RESIDUES, WIDTH, device=DEVICE)
    distances = torch.randint(BINS, (RESIDUES * RESIDUES,), device=DEVICE)
    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            logits = model(pairs)
        update(optimizer, nn.functional.cross_entropy(logits.flatten(0, 1).float(), distances))
