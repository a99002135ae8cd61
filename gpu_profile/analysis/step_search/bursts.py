"""Repetitions that come in bursts between other work, which itself repeats: an autotuner's.

It launches a kernel of the loop some hundred times, with what empties the caches before each. That
can be most of the launches, and of the GPU's work.
"""

from collections.abc import Callable

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.launches import Launches

Search = Callable[[Launches], Repetition | str]

LARGER, FEWEST, MORE = 2, 3, 1.5
"""The loop's steps have LARGER times as many launches as a repetition of a burst, or more. There
are FEWEST bursts or more, and MORE times as many steps: an iteration that comes in each step in its
own number of times is what repeats."""
ALIKE = 4
"""So many equal launches in a row, or repetitions, are of a burst: Triton tries five for an
estimate. What is between two such rows and shorter than a step is of the burst, too."""
NEAR = 16
"""XLA's autotuner launches at most 12 operations from one of its own kernels to the next (matrix
products), and a compilation ends 200 before the next one begins."""


def find_steps_between(launches: Launches, inner: Repetition, search: Search) -> Repetition | None:
    """The steps between which, or in which, `inner` comes in bursts; None if it does not, and where
    it trains, replays a graph, or copies from or to the host: a benchmark of a kernel does not.
    """
    burst = slice(int(inner.first[0]), int(inner.first[0]) + inner.size)
    gaps = np.diff(np.r_[inner.first, inner.end]) - inner.size
    are_bursts = np.count_nonzero(gaps >= LARGER * inner.size) >= FEWEST
    copies = launches.to_device | launches.to_host
    works_alone = ~(copies | launches.optimizer | launches.graph)
    if not are_bursts or not works_alone[burst].all():
        return None
    rows = np.flatnonzero(~_mark_bursts(launches, inner))
    steps = search(launches.pick(rows)) if len(rows) else ""
    if isinstance(steps, str) or not _are_steps(steps, rows, inner):
        return None
    of_loop = launches.token[rows[steps.first[0] : steps.end]]
    return steps.place_at(rows) if np.isin(launches.token[burst], of_loop).any() else None


def find_program(launches: Launches) -> IntArray:
    """The rows without what XLA's autotuner tries: what is between kernels of its own, near each
    other, and is no graph.
    """
    own = np.flatnonzero(launches.tests)
    change = np.zeros(len(launches) + 1, np.int64)
    is_near = np.diff(own) <= NEAR
    np.add.at(change, own[:-1][is_near], 1)
    np.add.at(change, own[1:][is_near], -1)
    tried = launches.tests | (np.cumsum(change[:-1]) > 0)
    return np.flatnonzero(~tried | launches.graph)


def _are_steps(steps: Repetition, rows: IntArray, inner: Repetition) -> bool:
    """Whether these steps are larger than what the bursts repeat, and more than there are bursts,
    given the rows of the launches that are of no burst.
    """
    bursts = np.count_nonzero(np.diff(rows) > ALIKE * inner.size)
    are_more = bursts >= FEWEST and len(steps.first) >= MORE * bursts
    return bool(are_more) and steps.size >= LARGER * inner.size


def _mark_bursts(launches: Launches, inner: Repetition) -> Flags:
    """A mask of the launches of repetitions in a row, and of one kernel again and again."""
    change = np.zeros(len(launches) + 1, np.int64)
    np.add.at(change, inner.first, 1)
    np.add.at(change, np.minimum(inner.first + inner.size, len(launches)), -1)
    repeats = np.cumsum(change[:-1]) > 0
    same = np.r_[False, launches.token[1:] == launches.token[:-1]]
    bursts = _mark_long(repeats, ALIKE * inner.size) | _mark_long(same, ALIKE)
    return ~_mark_long(~bursts, LARGER * inner.size)


def _mark_long(flags: Flags, least: int) -> Flags:
    """The flags that stand in a row of `least` or more."""
    group = np.cumsum(np.r_[False, flags[1:] != flags[:-1]][: len(flags)], dtype=np.int64)
    counts = np.bincount(group)
    return np.asarray(flags & (counts >= least)[group], np.bool_)
