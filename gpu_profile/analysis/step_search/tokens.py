"""Find an engine's iterations without marks: each ends with the copy of its tokens to the host.

Iterations of decoding, of prompts and of both launch different kernels, in no order, so that a
search for repetition finds only some of them.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.graph_replays import MANY
from gpu_profile.analysis.step_search.launches import Launches
from gpu_profile.analysis.step_search.uneven import are_uneven

# Other programs read a few values, too: 1 or 2 in the recordings of tests/data.
FEWEST_READS = 9
# The start-up of a server computes, too: it warms up, and captures graphs.
LEAST_WORK = 0.5
# An iteration of so many layers, or more, with one copy of its inputs and one of its tokens.
FEWEST_PARTS, NEARLY_ALL = 4, 0.9
# Copies that follow each other this often are in each step of a repetition that is found.
MORE = 1.02


def find_by_tokens(launches: Launches, repetition: Repetition | str) -> Repetition | None:
    """The iterations that end with a copy to the host after matrix products or a graph; None
    where there are too few, or where the `repetition` that the search found is as good.
    """
    ends = _find_ends(launches)
    if launches.optimizer.any() or len(ends) < FEWEST_READS:
        return None
    first, end = ends[:-1] + 1, int(ends[-1]) + 1
    if float(launches.gpu[first[0] : end].sum()) < LEAST_WORK * float(launches.gpu.sum()):
        return None
    if not isinstance(repetition, str):
        is_part = _lies_inside(launches, ends, repetition)
        if not is_part and not _finds_more(ends, repetition):
            return None
    size = int(np.median(np.diff(ends)))
    return Repetition(first, end, 1.0, size, by_copies=True)


def _find_ends(launches: Launches) -> IntArray:
    """The last small copy to the host after each stretch of work."""
    work = np.cumsum(launches.multiplies | launches.graph)
    copies = np.flatnonzero(launches.values)
    done = work[copies]
    is_last = np.r_[done[1:] != done[:-1], True][: len(copies)]
    return np.asarray(copies[is_last & (done > 0)], np.int64)


def _lies_inside(launches: Launches, ends: IntArray, repetition: Repetition) -> bool:
    """Whether the repetition is of the layers of an iteration: data comes in and goes out once from
    one copy of tokens to the next, and hardly ever in a stretch that repeats.
    """
    edges = np.r_[repetition.first, repetition.end]
    comes, goes = np.flatnonzero(launches.to_device), np.flatnonzero(launches.values)
    fed = np.diff(np.searchsorted(comes, np.r_[-1, ends])) > 0
    if np.mean(fed) < NEARLY_ALL or np.median(np.diff(np.searchsorted(edges, ends))) < FEWEST_PARTS:
        return False
    passes = np.diff(np.searchsorted(np.union1d(comes, goes), edges)) > 0
    return bool(np.mean(passes) < 1 - NEARLY_ALL)


def _finds_more(ends: IntArray, repetition: Repetition) -> bool:
    """Whether the copies tell more iterations than the repetition, which holds one in each, or
    holds them in no order and is of some iterations only.
    """
    is_sure = repetition.alike_part >= NEARLY_ALL and len(repetition.first) >= MANY
    if not is_sure and are_uneven(repetition, ends):
        return True
    edges = np.r_[repetition.first, repetition.end]
    inside = np.diff(np.searchsorted(ends, edges))
    return bool(np.median(inside) == 1) and len(ends) > MORE * len(repetition.first) + 1
