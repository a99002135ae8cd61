"""Topics of all papers by attention over citations; the cause keeps vectors in the host's memory between layers.

It gathers there the rows that a batch needs, copies them to the GPU, and brings the results back,
as the examples of graph libraries do. The fix keeps them on the GPU.
"""
# causes: pageable_copy, idle
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

PAPERS, CITED, INPUTS, HEADS, WIDTH, OUTPUTS, TOPICS = 400_000, 20, 256, 8, 256, 256, 172
BATCH, NEAR, BATCHES = 12_288, 8192, 8


class Attention(nn.Module):
    """A layer of a GATv2: each paper looks at those that it cites."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(INPUTS, HEADS * WIDTH)
        self.cited = nn.Linear(INPUTS, HEADS * WIDTH)
        self.score = nn.Parameter(torch.randn(HEADS, WIDTH) / WIDTH**0.5)
        self.out, self.norm = nn.Linear(HEADS * WIDTH, OUTPUTS), nn.LayerNorm(OUTPUTS)

    def forward(self, rows: torch.Tensor, cited: torch.Tensor) -> torch.Tensor:
        """New vectors of the first papers of rows; cited are places in rows."""
        own = self.own(rows[:BATCH]).view(BATCH, 1, HEADS, WIDTH)
        others = self.cited(rows).index_select(0, cited.flatten()).view(BATCH, CITED, HEADS, WIDTH)
        scores = (nn.functional.leaky_relu(own + others, 0.2) * self.score).sum(-1, keepdim=True)
        mixed = (scores.softmax(1) * others).sum(1)
        return self.norm(nn.functional.elu(self.out(mixed.flatten(1))))


def choose_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Papers of a batch with what they cite, the own ones first; and places of the cited ones."""
    batches = []
    for number in range(BATCHES):
        own = torch.arange(number * BATCH, (number + 1) * BATCH)
        around = torch.randint(PAPERS, (NEAR,))
        batches.append((torch.cat([own, around]), torch.randint(BATCH + NEAR, (BATCH, CITED))))
    return batches


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_float32_matmul_precision("high")
    layer, head = Attention().to(DEVICE).eval(), nn.Linear(OUTPUTS, TOPICS).to(DEVICE)
    known = torch.randn(PAPERS, INPUTS, device=DEVICE)
    found = torch.zeros(BATCH * BATCHES, OUTPUTS, device=DEVICE)
    known_on_host, found_on_host = known.cpu(), found.cpu()
    batches = [(papers, places.to(DEVICE)) for papers, places in choose_batches()]
    on_gpu = [papers.to(DEVICE) for papers, _ in batches]
    topics, taken = torch.zeros(BATCH * BATCHES, dtype=torch.long), 0
    while turns.step():
        number = taken % BATCHES
        taken += 1
        papers, places = batches[number]
        here = slice(number * BATCH, (number + 1) * BATCH)
        if turns.planted:
            x = layer(known_on_host[papers].to(DEVICE), places)
            found_on_host[here] = x.cpu()
        else:
            x = layer(known[on_gpu[number]], places)
            found[here] = x
        topics[here] = head(x).argmax(1).cpu()
