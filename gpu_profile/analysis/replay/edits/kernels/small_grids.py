"""The change in which long kernels of few blocks are spread over the GPU's multiprocessors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.arrays.ends import Lengths
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.shapes import Coded
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops
from gpu_profile.analysis.replay.edits.loops.narrow_kernels import NARROW_NS, TINY_NS
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

Reals = NDArray[np.float64]

LEAST_RATIO = 4.0
"""A grid is small if the multiprocessors that it and all other kernels leave idle are three times
its own or more."""
LEAST_TIME = 0.01
"""Of all operations' time: less is never told, so what runs beside it is not looked for. That is a
tenth of the CPU time for the facts of a report with 600,000 operations."""
REACHED = 0.5
"""Of the ratio of the multiprocessors, where the threads of a block are not known. 37 kernels of 1
to 32 blocks got more of them, or had a library's other way, on an H200 of 132: half of those over
0.2 ms reached 0.35 to 1.3 of it, the others 0.04 to 6, as several blocks of one multiprocessor hide
each other's waits. Shorter ones reached less: a topk of one row became twice as fast in two stages.
The gain by REACHED was within 25 % for 24 of the 37, and within the bounds for 34."""

FULL_REACH_THREADS, MOST_ESTIMATED = 256, 1.5
"""A block of so many threads reaches all of the ratio. Threads hide each other's waits, so one of
half as many leaves more to gain, up to where memory is the limit. Of the ratio were reached: 2.7
with 128 threads (attention of decoding), 0.7 and 0.9 with 256 (sums of rows; alignments in eight
streams), 0.3 and 1.0 with 512 (norms), 0.2 with 1,024 (the same sums of rows).
"""
MOST_REACHED = 3.5


@dataclass(frozen=True)
class _Reach:
    """Kernels become `part` of the ratio as fast, at most `most` times, and take `least_ns`; None
    is the part that is estimated of each.
    """

    part: float | None
    most: float
    least_ns: int


_LEAST = _Reach(0.2, 2.0, NARROW_NS)
_ESTIMATE = _Reach(None, float("inf"), NARROW_NS)
_MOST = _Reach(MOST_REACHED, float("inf"), TINY_NS)


class _Kernels(Protocol):
    """Operations sorted by start; `blocks` and their `threads` are 0 where they are not known."""

    @property
    def start(self) -> IntArray: ...
    @property
    def kind(self) -> NDArray[np.int8]: ...
    @property
    def blocks(self) -> IntArray | Coded: ...
    @property
    def threads(self) -> IntArray | Coded: ...


@dataclass(frozen=True, eq=False)
class SmallGrids:
    """Kernels over NARROW_NS that leave most of the GPU idle, by their `rows`. `ratio`: how many
    times as many multiprocessors each could use, its own and those that no kernel uses beside it.
    `reached`: the part of it that is estimated.
    """

    rows: IntArray
    ratio: Reals
    reached: Reals


def find_small_grids(ops: _Kernels, length: Lengths, multiprocessors: int) -> SmallGrids:
    """The small grids of one GPU, which has so many multiprocessors; 0 if that is not known.
    `length` is the time of each operation (ns).
    """
    blocks = ops.blocks[:]
    few = (ops.kind == COMPUTE) & (blocks > 0) & (blocks <= multiprocessors / LEAST_RATIO)
    rows = np.flatnonzero(few & (length >= NARROW_NS))
    if length[rows].sum() <= LEAST_TIME * length.sum():
        return SmallGrids(rows[:0], np.empty(0), np.empty(0))
    use = blocks[rows] / multiprocessors
    ratio = 1 + (1 - _measure_use(ops, length, rows, multiprocessors)) / use
    chosen = ratio >= LEAST_RATIO
    rows = rows[chosen]
    return SmallGrids(rows, ratio[chosen], estimate_reached(ops.threads[:][rows]))


def estimate_reached(threads: IntArray) -> Reals:
    """The part of the ratio that kernels with blocks of so many threads reach; 0 is unknown."""
    reached = np.minimum(FULL_REACH_THREADS / np.maximum(threads, 1), MOST_ESTIMATED)
    return np.where(threads > 0, reached, REACHED)


def _measure_use(ops: _Kernels, length: Lengths, rows: IntArray, multiprocessors: int) -> Reals:
    """The part of the GPU (0 to 1) that all kernels use while each of these runs. One of unknown
    blocks, such as a CUDA graph, uses all of it.
    """
    kernels = np.flatnonzero((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION))
    blocks = ops.blocks[kernels]
    share = np.where(blocks > 0, np.minimum(blocks / multiprocessors, 1.0), 1.0)
    begin, took = ops.start[kernels], length[kernels].astype(np.int64)
    edges = np.concatenate((begin, begin + took))
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    used = np.minimum(np.cumsum(np.concatenate((share, -share))[order]), 1.0)
    area = np.concatenate(([0.0], np.cumsum(used[:-1] * np.diff(edges))))
    start, took = ops.start[rows], length[rows].astype(np.int64)
    first, last = (np.searchsorted(edges, time) for time in (start, start + took))
    return np.asarray((area[last] - area[first]) / took, np.float64)


def spread_small_grids(ranks: Sequence[int] = ()) -> Change:
    """Kernels of few blocks have blocks for the multiprocessors that are idle beside them, and
    become `reached` of the ratio as fast, or NARROW_NS long.
    """
    return Change(
        "small grids",
        _spread(_ESTIMATE, ranks),
        ("unused_gpu",),
        is_bound=True,
        bounds=(_spread(_LEAST, ranks), _spread(_MOST, ranks)),
    )


def limit_gains(duration: IntArray, ratio: Reals) -> IntArray:
    """The most (ns) that more blocks gain of kernels with these ratios."""
    return np.rint(duration * (1 - 1 / (MOST_REACHED * ratio))).astype(np.int64)


def _spread(reach: _Reach, ranks: Sequence[int]) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        grids = _find_of_run(graph)
        chosen: Flags = choose_ops(graph, ranks)[grids.rows]
        rows, ratio = grids.rows[chosen], grids.ratio[chosen]
        before = weights.work[rows]
        part = grids.reached[chosen] if reach.part is None else reach.part
        faster = before / np.clip(part * ratio, 1.0, reach.most)
        work = np.minimum(before, np.maximum(np.rint(faster).astype(np.int64), reach.least_ns))
        return weights.with_work(rows, work)

    return apply


@once_each
def _find_of_run(graph: RunGraph) -> SmallGrids:
    """The small grids of all ranks, each on its own GPU."""
    by_rank = [
        (
            number,
            find_small_grids(entry.ops, entry.ops.end - entry.ops.start, entry.multiprocessors),
        )
        for number, entry in enumerate(graph.ranks)
    ]
    first = np.searchsorted(graph.op_rank, np.arange(len(graph.ranks)))
    rows = [grids.rows + first[number] for number, grids in by_rank]
    ratio, reached = ([getattr(grids, key) for _, grids in by_rank] for key in ("ratio", "reached"))
    return SmallGrids(*(np.concatenate(part) for part in (rows, ratio, reached)))
