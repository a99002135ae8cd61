"""Lines of films for dubbing, by a GPT under DDP; the cause is that each rank draws its own bucket.

Lines of one length make a batch. While a rank reads long lines, the other waits with short ones.
The fix draws the buckets with the same seed on all ranks; each sees the same batches as before.
"""

# causes: straggler
import torch
from parts import DEVICE, RANK, Gpt, draw_tokens, language_loss, update, use_ranks
from torch.nn.parallel import DistributedDataParallel
from turns import Turns

RANKS = 2
BATCH, LENGTHS, WORDS, KEPT = 40, (513, 129), 8192, 4
LAYERS, WIDTH, HEADS = 10, 768, 12


class Buckets:
    """Batches of long and of short lines, as often the one as the other."""

    def __init__(self) -> None:
        self.batches = [
            [draw_tokens(BATCH, length, WORDS) for _ in range(KEPT)] for length in LENGTHS
        ]
        self.taken = 0

    def take(self, own: bool) -> torch.Tensor:
        """The next batch, of this rank's `own` bucket or of the one of all ranks."""
        bucket = (self.taken + (RANK if own else 0)) % len(LENGTHS)
        batch = self.batches[bucket][self.taken // len(LENGTHS) % KEPT]
        self.taken += 1
        return batch


def run(turns: Turns) -> None:
    use_ranks(turns)
    turns.period = len(LENGTHS)
    model = DistributedDataParallel(Gpt(LAYERS, WIDTH, HEADS, WORDS).to(DEVICE))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    buckets = Buckets()
    while turns.step():
        update(optimizer, language_loss(model, buckets.take(turns.planted)))
