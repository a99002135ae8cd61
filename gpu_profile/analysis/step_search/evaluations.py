"""Evaluations at the begin of steps: a loop that evaluates in step 0, 10, 20 does so before step 0.

Between two steps, nothing tells whether an evaluation belongs to the one before or the one behind.
The first step tells: if the same launches come before it, the loop evaluates first.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray

# A log or a count of tokens takes up to 24 launches; an evaluation runs a model.
FEWEST_LAUNCHES = 25
# The first evaluation may choose other kernels for a few of its launches.
SAME = 0.9


def include_evaluations(token: IntArray, first: IntArray, behind: IntArray) -> IntArray:
    """The rows of the steps' first launches, where evaluations begin steps.

    `token` is a number for each launch; `first` are the rows at which the training part of each
    step begins, `behind` the rows after which the step before has ended (of the first step: 0).
    """
    size = first - behind
    between = np.flatnonzero(size >= FEWEST_LAUNCHES)
    lengths = [
        int(size[row])
        for row in between[between > 0]
        if _is_same(token, int(first[row]), int(first[0]), int(size[row]))
    ]
    if not lengths:
        return first
    length = min(lengths)
    evaluates = [_is_same(token, row, int(first[0]), length) for row in first.tolist()]
    return np.where((size >= length) & evaluates, first - length, first)


def _is_same(token: IntArray, one: int, other: int, length: int) -> bool:
    """Whether the `length` launches before two rows are nearly the same."""
    if min(one, other) < length:
        return False
    return bool(np.mean(token[one - length : one] == token[other - length : other]) >= SAME)
