"""Near-duplicates of texts found by MinHash on the GPU before a training; the cause hashes by one permutation after another.

The fix hashes by all permutations at once.
"""

# causes: tiny_kernels, host_bound
import torch
from parts import DEVICE, use_gpu
from turns import Turns

TEXTS, SHINGLES, PERMUTATIONS, ROWS, BATCHES = 4000, 96, 384, 8, 3
PRIME = 2**31 - 1


def draw_texts() -> list[torch.Tensor]:
    """Hashes of the shingles of texts; the second half of a batch nearly repeats the first."""
    batches = []
    for _ in range(BATCHES):
        first = torch.randint(PRIME, (TEXTS // 2, SHINGLES), device=DEVICE)
        second = first.clone()
        second[:, :4] = torch.randint(PRIME, (TEXTS // 2, 4), device=DEVICE)
        batches.append(torch.cat([first, second]))
    return batches


def sign_in_turn(texts: torch.Tensor, factors: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    """The least hash of each text by each permutation: (permutations, texts)."""
    least = torch.empty(PERMUTATIONS, len(texts), dtype=torch.long, device=DEVICE)
    for number in range(PERMUTATIONS):
        hashes = (texts * factors[number] + added[number]) % PRIME
        least[number] = hashes.min(dim=1).values
    return least


def sign_at_once(texts: torch.Tensor, factors: torch.Tensor, added: torch.Tensor) -> torch.Tensor:
    """As sign_in_turn."""
    hashes = texts * factors[:, None, None]
    hashes += added[:, None, None]
    return hashes.remainder_(PRIME).amin(2)


def count_pairs(least: torch.Tensor, mixers: torch.Tensor) -> torch.Tensor:
    """How many texts share a band of their signature with another."""
    bands = (least.unflatten(0, (-1, ROWS)) * mixers[:, None]).sum(1)
    ordered = bands.sort(1).values
    return (ordered[:, 1:] == ordered[:, :-1]).sum()


def run(turns: Turns) -> None:
    use_gpu(turns)
    batches = draw_texts()
    factors = torch.randint(1, PRIME, (PERMUTATIONS,), device=DEVICE)
    added = torch.randint(PRIME, (PERMUTATIONS,), device=DEVICE)
    mixers = torch.randint(1, PRIME, (ROWS,), device=DEVICE)
    pairs = torch.zeros((), dtype=torch.long, device=DEVICE)
    signed = 0
    while turns.step():
        sign = sign_in_turn if turns.planted else sign_at_once
        least = sign(batches[signed % BATCHES], factors, added)
        pairs += count_pairs(least, mixers)
        signed += 1
