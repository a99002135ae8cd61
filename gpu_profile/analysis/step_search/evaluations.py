"""Evaluations at the begin of steps: a loop that evaluates in step 0, 10, 20 does so before step 0.

Between two steps, nothing tells whether an evaluation belongs to the one before or the one after.
The first step tells: if the same launches come before it, the loop evaluates first.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.launches import Launches

# An evaluation launches at least a tenth of what a step does. Logs launch less, and fewer than 8
# launches can be alike by chance.
LEAST_SIZE, FEWEST_LAUNCHES = 0.1, 8
MOST_EVALUATIONS = 1 / 8
# The first evaluation may choose other kernels for a few of its launches.
SAME = 0.9
# What comes in every n-th step comes three times, and no later before the first step than twice the
# usual time.
FEWEST_TIMES, FARTHER = 3, 2
# So many launches at the begin of a step tell it from other places.
OPENING = 8
# A batch of an evaluation lacks the backward pass, which is half of the launches or more.
SHORT = 0.7
# A forward pass can be two thirds of a step's launches. A log or tokens that are routed change few.
STEP_SHARE = 0.8
# The last step of a window must be like some other one in 60 % of its launches.
LIKE = 0.6


def split_at_openings(launches: Launches, usual: IntArray, first: IntArray, size: int) -> IntArray:
    """The steps' first rows, and those of the batches of evaluations, which begin alike.

    `usual` are the rows at which usual steps begin. Anchors also occur in evaluations, at other
    places than in a step: a row of `first` counts only if no step begins near it. Where steps hold
    the opening several times, once for each micro-batch, `first` stays.
    """
    code = launches.ngrams[OPENING]
    usual = usual[usual + size <= len(code)]
    if not len(usual):
        return first
    values, counts = np.unique(code[usual], return_counts=True)
    places = np.flatnonzero(code == values[np.argmax(counts)])
    inside = np.searchsorted(places, usual + size) - np.searchsorted(places, usual)
    if np.mean(inside == 1) < LIKE:
        return first
    places = places[places >= first[0]]
    apart = _find_nearest(first, places, len(code))
    model = launches.token[usual[0] : usual[0] + size]
    others = [
        row
        for row in first[apart >= SHORT * size].tolist()
        if _share(launches.token[row : row + size], model) >= STEP_SHARE
    ]
    return np.union1d(places, np.array(others, np.int64))


def _find_nearest(rows: IntArray, places: IntArray, most: int) -> IntArray:
    """How far each row is from the nearest of the sorted places, at most `most`."""
    far = np.r_[-most, places, 2 * most]
    place = np.searchsorted(far, rows)
    apart = np.minimum(far[place] - rows, rows - far[place - 1])
    return np.asarray(np.minimum(apart, most), np.int64)


def _share(token: IntArray, model: IntArray) -> float:
    """The part of the model's launches that are among these, in any order."""
    size = int(max(token.max(initial=0), model.max(initial=0))) + 1
    counts = [np.bincount(tokens, minlength=size) for tokens in (token, model)]
    return float(np.minimum(*counts).sum() / max(1, len(model)))


def leave_out_evaluations(launches: Launches, first: IntArray, end: int, size: int) -> IntArray:
    """The steps without the batches of an evaluation, for programs whose optimizer is unknown.

    Such a batch belongs to the step before, or after where an evaluation begins the first step.
    """
    kept = np.flatnonzero(_are_steps(launches.token, np.r_[first, end], size))
    if len(kept) > 1 and not _begins_like(launches.token, first[kept], end):
        kept = kept[:-1]
    if not len(kept):
        return first
    ends = first[np.r_[0, kept[:-1] + 1]]
    ends[0] = 0
    return include_evaluations(launches, first[kept], ends, size)


def _are_steps(token: IntArray, edges: IntArray, size: int) -> NDArray[np.bool_]:
    """Whether the stretches between the edges have most launches of a step of the usual `size`.

    The copies of a checkpoint can make the batch of an evaluation as long as a small step.
    """
    length = np.diff(edges)
    usual = edges[:-1][length == size]
    if not len(usual):
        return np.asarray(length >= SHORT * size)
    model = token[usual[len(usual) // 2] :][:size]
    share = np.ones(len(length))
    alike = np.flatnonzero(length == size)
    is_same = np.ones(len(alike), bool)
    for place, launch in enumerate(model.tolist()):
        is_same &= token[edges[alike] + place] == launch
    for row in np.setdiff1d(np.arange(len(length)), alike[is_same]).tolist():
        share[row] = _share(token[edges[row] : edges[row + 1]], model)
    return np.asarray((length >= SHORT * size) & (share >= STEP_SHARE))


def _begins_like(token: IntArray, first: IntArray, end: int) -> bool:
    """Whether the last step launches what the others do, one after the other.

    Two batches of an evaluation at the end of a window have as many launches as most of a step.
    """
    length = end - int(first[-1])
    others = first[:-1]
    window = token[others[others + length <= len(token)][:, None] + np.arange(length)]
    same = (window == token[first[-1] : end]).mean(axis=1)
    return not len(same) or bool(same.max() >= LIKE)


def find_pauses(launches: Launches, first: IntArray, ends: IntArray, size: int) -> IntArray:
    """The rows at which an evaluation between two steps begins.

    `first` are the rows of the steps' first launches, `ends` the rows after which the step before
    has ended, `size` the launches of a usual step. What multiplies no matrices is a log or a
    checkpoint, and what comes between more than an eighth of the steps is a part of the loop.
    """
    products = np.r_[0, np.cumsum(launches.multiplies)]
    fewest = max(FEWEST_LAUNCHES, int(LEAST_SIZE * size))
    is_long = first - ends >= fewest
    rows = np.flatnonzero(is_long & (products[first] > products[np.minimum(ends, first)]))
    rows = rows[rows > 0]
    return ends[rows] if len(rows) <= max(1, MOST_EVALUATIONS * len(first)) else rows[:0]


def include_evaluations(launches: Launches, first: IntArray, ends: IntArray, size: int) -> IntArray:
    """The rows of the steps' first launches, where evaluations begin steps.

    `first` are the rows at which the training part of each step begins, `ends` the rows after
    which the step before has ended (of the first step: 0), `size` the launches of a usual step.
    """
    if launches.optimizer[: first[0]].any():
        return first  # a window, whose first step is not the program's
    fewest = max(FEWEST_LAUNCHES, int(LEAST_SIZE * size))
    length = np.zeros(len(first), np.int64)
    for row in (1 + np.flatnonzero((first - ends)[1:] >= fewest)).tolist():
        same = _count_same(launches.token, int(ends[row]), int(first[row]), int(first[0]))
        if same >= fewest and _is_whole(launches, int(ends[row]), int(first[row]), same):
            length[row] = same
    if not length.any():
        length = _find_regular(launches, first, ends)
    if length.any():
        length[0] = np.median(length[length > 0])
    return first - length


def _find_regular(launches: Launches, first: IntArray, ends: IntArray) -> IntArray:
    """The launches that every n-th step begins with, counted from the first step; 0 for others.

    A loop that reads a value in steps 0, 5, 10, at their begin, and one that logs after steps 4,
    9, 14 launch the same. The first does so directly before the first step, too.
    """
    length, steps = np.zeros(len(first), np.int64), np.arange(len(first))
    extra = first - ends
    rows = 1 + np.flatnonzero(extra[1:] > 0)
    size = int(extra[rows[0]]) if len(rows) >= FEWEST_TIMES else 0
    every_nth = np.array_equal(rows, steps[rows[0] :: rows[0]]) if size else False
    if not every_nth or size > first[0] or np.any(extra[rows] != size):
        return length
    begins = first[np.r_[0, rows]]
    window = launches.token[begins[:, None] - size + np.arange(size)]
    apart = launches.call_starts[begins] - launches.call_ends[begins - 1]
    if np.all(window == window[1]) and apart[0] <= FARTHER * np.median(apart[1:]):
        length[rows] = size
    return length


def _count_same(token: IntArray, end: int, row: int, other: int) -> int:
    """How many launches before row `row`, down to `end`, are those before row `other`."""
    most = min(row - end, other)
    same = (token[row - most : row] == token[other - most : other])[::-1]
    fits = same & (np.cumsum(same) >= SAME * np.arange(1, most + 1))
    return int(np.flatnonzero(fits)[-1]) + 1 if fits.any() else 0


def _is_whole(launches: Launches, begin: int, end: int, same: int) -> bool:
    """Whether these launches are a whole evaluation: no more of their kernels come before.

    Frameworks check the evaluation with two batches before the first step (Lightning). Copies
    alone are a checkpoint, which a window can cut, too.
    """
    kernel = ~(launches.to_device | launches.to_host)
    before, inside = slice(begin, end - same), slice(end - same, end)
    if kernel[inside].mean() < 1 / 2:
        return False
    kernels_before = launches.token[before][kernel[before]]
    return (
        not len(kernels_before)
        or float(np.isin(kernels_before, launches.token[inside]).mean()) <= 1 - SAME
    )
