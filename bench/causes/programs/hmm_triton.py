"""Genes found by a hidden Markov model in Triton; the cause launches a kernel for each letter of DNA.

The fix goes over the letters inside of one kernel.
"""
# causes: tiny_kernels, host_bound
import torch
import triton
import triton.language as tl
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

READS, LETTERS, STATES, WIDTH = 256, 1000, 64, 128


@triton.jit
def add_letter(before, after, moves, fits, logs, STATES: tl.constexpr):  # type: ignore[no-untyped-def]
    """The chances of a read's states, one letter later, and the logarithm of their sum."""
    read, states = tl.program_id(0), tl.arange(0, STATES)
    matrix = tl.load(moves + states[:, None] * STATES + states[None, :])
    chances = tl.load(before + read * STATES + states)
    chances = tl.sum(chances[:, None] * matrix, 0) * tl.load(fits + read * STATES + states)
    total = tl.sum(chances, 0)
    tl.store(after + read * STATES + states, chances / total)
    tl.store(logs + read, tl.load(logs + read) + tl.log(total))


@triton.jit
def add_letters(first, moves, fits, logs, letters, reads, STATES: tl.constexpr):  # type: ignore[no-untyped-def]
    """As add_letter, for all letters."""
    read, states = tl.program_id(0), tl.arange(0, STATES)
    matrix = tl.load(moves + states[:, None] * STATES + states[None, :])
    chances = tl.load(first + read * STATES + states)
    log = 0.0
    for letter in range(letters):
        fit = tl.load(fits + (letter * reads + read) * STATES + states)
        chances = tl.sum(chances[:, None] * matrix, 0) * fit
        total = tl.sum(chances, 0)
        chances = chances / total
        log += tl.log(total)
    tl.store(logs + read, log)


def score_letter_by_letter(moves: torch.Tensor, fits: torch.Tensor) -> torch.Tensor:
    """The logarithm of how likely each read is; fits: (letters, reads, states)."""
    before = torch.full(fits.shape[1:], 1 / STATES, device=fits.device)
    after, logs = torch.empty_like(before), torch.zeros(fits.shape[1], device=fits.device)
    for fit in fits:
        add_letter[(len(logs),)](before, after, moves, fit, logs, STATES=STATES)
        before, after = after, before
    return logs


def score_at_once(moves: torch.Tensor, fits: torch.Tensor) -> torch.Tensor:
    """As score_letter_by_letter."""
    letters, reads, _ = fits.shape
    first = torch.full(fits.shape[1:], 1 / STATES, device=fits.device)
    logs = torch.empty(reads, device=fits.device)
    add_letters[(reads,)](first, moves, fits, logs, letters, reads, STATES=STATES)
    return logs


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    network = nn.Sequential(
        nn.Conv1d(4, WIDTH, 15, padding="same"), nn.GELU(), nn.Conv1d(WIDTH, STATES, 1)
    ).to(DEVICE)
    moves = torch.randn(STATES, STATES, device=DEVICE).softmax(-1)
    dna = nn.functional.one_hot(torch.randint(4, (READS, LETTERS), device=DEVICE), 4)
    best = torch.zeros((), device=DEVICE)
    while turns.step():
        fits = network(dna.mT.float()).permute(2, 0, 1).softmax(-1).contiguous()
        score = score_letter_by_letter if turns.planted else score_at_once
        best = torch.maximum(best, score(moves, fits).max())
