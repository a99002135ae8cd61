"""Steps that replay a CUDA graph: where they begin among the launches of one rank."""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.launches import Launches

# A step that autotunes a few kernels beside its graph takes a few per cent more of the GPU.
LIKE_WORK = 0.25
# Fewer repetitions than 8 can be a warm-up or the layers of one step.
MANY = 8


def find_replays(launches: Launches) -> IntArray:
    """The rows of the graphs, and of what is launched beside them.

    What is launched between two graphs in far more launches than usual is of a compiler, which
    tries kernels, or of a start-up.
    """
    graphs = np.flatnonzero(launches.graph)
    if len(graphs) < MANY:
        return np.empty(0, np.int64)
    apart = np.diff(graphs, prepend=-1, append=len(launches))
    usual = int(np.median(apart[1:-1]))
    before = np.where(apart > MANY * usual, usual, apart)[:-1] - 1
    before[0] = min(before[0], usual - 1)
    kept = np.repeat(graphs, before + 1) - _count_down(before)
    after = np.arange(graphs[-1] + 1, len(launches))
    return np.r_[kept, after] if len(after) <= MANY * usual else kept


def _count_down(most: IntArray) -> IntArray:
    """For each number n the numbers n, n - 1, ..., 0."""
    ends = np.cumsum(most + 1)
    return np.asarray(np.repeat(ends, most + 1) - 1 - np.arange(int(ends[-1])), np.int64)


def include_first_replays(launches: Launches, steps: Repetition) -> Repetition:
    """The steps with those before them that replay the graph beside launches of their own.

    JAX launches kernels beside its graph in the first three calls of a compiled function. Such a
    step does as much work on the GPU as the others do.
    """
    graphs = np.flatnonzero(launches.graph)
    place_of_step = np.searchsorted(graphs, steps.first)
    has_graph = place_of_step < len(graphs)
    offset = int(np.median(graphs[place_of_step[has_graph]] - steps.first[has_graph]))
    place = np.r_[graphs[: place_of_step[0]], steps.first[0] + offset]
    place = place[place > np.flatnonzero(launches.optimizer).max(initial=-1)]
    work = np.r_[0, np.cumsum(launches.gpu)]
    usual = float(np.median(np.diff(work[steps.first])))
    unlike = np.flatnonzero(np.abs(np.diff(work[place]) - usual) > LIKE_WORK * usual)
    earlier = place[unlike[-1] + 1 if len(unlike) else 0 : -1] - offset
    earlier = earlier[earlier >= 0]
    return replace(steps, first=np.r_[earlier, steps.first])
