"""The pauses of an engine between requests: proven by what comes after them."""

import numpy as np

from gpu_profile.analysis.activity.serving.marks import DECODE, MIXED, NOT_TOLD, PREFILL, Iterations
from gpu_profile.analysis.arrays.types import Flags, IntArray


def find_emptied(iterations: Iterations) -> Flags:
    """A mask of the iterations after which the engine had no request left.

    It then goes on with a new prompt, and decodes no more requests than came since.
    """
    kind, emptied = iterations.kind, np.zeros(len(iterations.kind), bool)
    for row in np.flatnonzero((kind[1:] == PREFILL) & (kind[:-1] != PREFILL)).tolist():
        emptied[row] = _begins_anew(iterations, row + 1)
    return emptied


def find_awaited(kind: IntArray, emptied: Flags) -> Flags:
    """A mask of the iterations whose prompts make requests that decode wait."""
    others = np.where(kind != PREFILL, np.arange(len(kind)), -1)
    before = np.maximum.accumulate(others) if len(kind) else others
    held = (before >= 0) & ~emptied[before]
    return np.asarray((kind == MIXED) | ((kind == PREFILL) & held), np.bool_)


def measure_pauses(emptied: Flags, idle: IntArray, step: IntArray) -> IntArray:
    """ns after each iteration in which no request was there.

    `idle`: ns without GPU work after each iteration, `step`: ns of each one. A pause that is
    shorter than most iterations is one of the host between two of them.
    """
    usual = float(np.median(step - idle)) if len(step) else 0.0
    return np.where(emptied & (idle > usual), idle, 0)


def _begins_anew(iterations: Iterations, first: int) -> bool:
    """Whether the prompts from row `first` on are all that is decoded after them.

    A long prompt takes several iterations, in each of which its request counts again. All but the
    last of these hold as many tokens as fit.
    """
    kind, batch, prompts = iterations.kind, iterations.batch, iterations.prompts
    others = np.flatnonzero(kind[first:] != PREFILL)
    after = first + int(others[0]) if len(others) else len(kind)
    if after == len(kind) or kind[after] != DECODE:
        return True
    earlier = prompts[first : after - 1]
    continued = (earlier == NOT_TOLD) | (earlier == prompts.max())
    fewest_new = int(batch[first:after].sum()) - int(np.sum(continued))
    return int(batch[after]) <= fewest_new
