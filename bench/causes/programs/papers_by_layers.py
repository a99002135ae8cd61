"""Topics of all papers by a GraphSAGE, layer by layer; the cause keeps what a layer found in the host's memory.

It gathers there the rows that a batch needs, copies them, and brings the results back, as in the
examples of the first libraries. The fix keeps them on the GPU.
"""
# causes: pageable_copy, idle
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

PAPERS, CITED, WIDTH, TOPICS, BATCH, BATCHES = 400_000, 12, 1024, 172, 4096, 16
NEAR = 8192


class Sage(nn.Module):
    """A layer: a paper's own vector and the mean of those that it cites."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.own, self.cited = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)
        self.norm = nn.LayerNorm(outputs)
        self.mlp = nn.Sequential(
            nn.Linear(outputs, 4 * outputs), nn.GELU(), nn.Linear(4 * outputs, outputs)
        )

    def forward(self, rows: torch.Tensor, cited: torch.Tensor) -> torch.Tensor:
        """Of the first papers of rows; cited are places in rows."""
        mean = rows[cited.flatten()].view(*cited.shape, -1).mean(1)
        x = nn.functional.relu(self.norm(self.own(rows[: len(cited)]) + self.cited(mean)))
        return x + self.mlp(x)


def choose_batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Papers of a batch with all that they cite, the own ones first; and places of the cited ones."""
    batches = []
    for number in range(BATCHES):
        own = torch.arange(number * BATCH, (number + 1) * BATCH)
        around = torch.randint(PAPERS, (NEAR,))
        places = torch.randint(BATCH + NEAR, (BATCH, CITED))
        batches.append((torch.cat([own, around]), places))
    return batches


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    layer = Sage(WIDTH, WIDTH).to(DEVICE, torch.bfloat16).eval()
    head = nn.Linear(WIDTH, TOPICS).to(DEVICE, torch.bfloat16)
    known = torch.randn(PAPERS, WIDTH, device=DEVICE, dtype=torch.bfloat16)
    found = torch.zeros(BATCH * BATCHES, WIDTH, device=DEVICE, dtype=torch.bfloat16)
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
