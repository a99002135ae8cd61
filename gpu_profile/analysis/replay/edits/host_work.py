"""The change without the host's pauses, and without the copies that serve the work in them.

The host pauses at places of a step: a place is between two kernels that a thread launches one after
the other, by their names.
"""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_HOST
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    LEAST_SHARE,
    choose_ops,
    find_waits_after,
    free_calls,
    mark_launches,
    match_copies,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.step_times import measure_steps
from gpu_profile.analysis.replay.weights import Weights

LEAST_WORK = 0.5
"""Of the time in which served copies hold the host, what it then works on them. In four programs
that work on such copies it is 1.3 to 85 times as long, in one that only keeps them 0.07 times."""
MAIN_PART, SMALL_PART = 0.5, 0.25
"""The place with the most pauses has that part of all at least, and small ones are that part of its
mean pause at most."""


def remove_host_work(graph: RunGraph, weights: Weights) -> Weights:
    """The host pauses no more than it has to, and what was copied for its work in a pause is not
    copied.
    """
    return drop_copies(graph, remove_told_pauses(graph, weights), find_served_copies(graph))


def remove_told_pauses(graph: RunGraph, weights: Weights) -> Weights:
    """The pauses of find_told_pauses() take no time."""
    rows = find_told_pauses(graph)
    return shorten(graph, weights, graph.nodes.call_start[rows], weights.silent[rows])


@once_each
def find_told_pauses(graph: RunGraph) -> IntArray:
    """The calls before which the host pauses, but for small pauses where one place has the most.

    Eager PyTorch pauses for 0.3 to 2 ms where a loss, autograd, an optimizer or a loader begins. A
    fix of what the host does elsewhere leaves that. Where no place has MAIN_PART, one cause may be
    spread over many.
    """
    rows = np.flatnonzero(graph.calls.silent > 0)
    if not len(rows):
        return rows
    stretches, pause = np.unique(number_stretches(graph)[rows - 1], return_inverse=True)
    spent = measure_own_pauses(graph, Weights.of(graph))[rows]
    length = np.asarray(np.bincount(pause, weights=spent), np.float64)
    return rows[~_mark_small(graph, stretches, length)[pause]]


def describe_left_pauses(graph: RunGraph) -> str:
    """Evidence of the pauses that stay; "" where they are less than is told of a cause."""
    spent = measure_own_pauses(graph, Weights.of(graph))
    left = (spent.sum() - spent[find_told_pauses(graph)].sum()) / graph.steps
    if left < LEAST_SHARE * measure_steps(graph, graph.time).max():
        return ""
    return f"short pauses elsewhere, {left / 1e6:.2f} ms of a recorded step, are not in the cost"


def describe_pauses(graph: RunGraph) -> str:
    """Evidence of the copies that go with the pauses, and of the pauses that stay."""
    return "; ".join(filter(None, (describe_served_copies(graph), describe_left_pauses(graph))))


def measure_own_pauses(graph: RunGraph, weights: Weights) -> IntArray:
    """The time (ns) of the pauses before each call, without that in which its thread only waits for
    another one: autograd's thread is as silent as the main thread while that loads a batch.
    """
    starts = graph.nodes.call_start
    own = np.minimum(weights.silent, weights.delay[starts])
    return np.where(graph.has_source[starts], own, 0)


def _mark_small(graph: RunGraph, stretches: IntArray, length: NDArray[np.float64]) -> Flags:
    """A mask of these stretches: their pauses are small, and at places that have less of the step
    than is told. `length`: of the pause in each (ns).
    """
    columns = find_places(graph, stretches)
    places, place = np.unique(columns, axis=0, return_inverse=True)
    place, rank = place.ravel(), places[:, 0]
    total, count = np.bincount(place, weights=length), np.bincount(place)
    longest = np.zeros(len(places))
    np.maximum.at(longest, place, length)
    least = LEAST_SHARE * graph.steps * measure_steps(graph, graph.time)
    small = np.zeros(len(places), bool)
    for number in np.unique(rank).tolist():
        of_rank = np.flatnonzero(rank == number)
        main = of_rank[np.argmax(total[of_rank])]
        if total[main] >= MAIN_PART * total[of_rank].sum():
            short = longest[of_rank] < SMALL_PART * total[main] / count[main]
            small[of_rank] = short & (total[of_rank] < least[number])
    return np.asarray(small[place], np.bool_)


def find_places(graph: RunGraph, stretches: IntArray) -> IntArray:
    """The places of these stretches: rank, and names of the kernels that they begin with and that
    come next.
    """
    launched = graph.ops.call != NONE
    names = np.full(len(graph.calls.start) + 1, NONE, np.int64)
    names[graph.ops.call[launched]] = graph.ops.name[launched]
    begins = np.unique(number_stretches(graph), return_index=True)[1]
    begin, end = begins[stretches], np.append(begins, NONE)[stretches + 1]
    return np.stack((graph.call_rank[begin], names[begin], names[end]), axis=1)


def drop_copies(graph: RunGraph, weights: Weights, copies: IntArray) -> Weights:
    """The GPU spares the copies and the time before each, the host their calls and the waits after
    them.
    """
    weights = weights.with_work(copies, 0)
    starts = graph.nodes.op_start[copies]
    weights = shorten(graph, weights, starts, weights.delay[starts])
    calls = find_waits_after(graph, graph.ops.call[copies])
    return free_calls(graph, unblock_calls(graph, weights, calls), calls)


def describe_served_copies(graph: RunGraph) -> str:
    """Evidence of the copies that go with the pauses; "" without any."""
    copies = find_served_copies(graph)
    if not len(copies):
        return ""
    count, size = len(copies) / graph.steps, graph.ops.bytes[copies].sum() / graph.steps
    return (
        f"{count:.1f} copies a step of pageable memory, {size / 1e6:.2f} MB, serve that work: the "
        "cost holds them, for on the GPU the work needs none"
    )


@once_each
def find_served_copies(graph: RunGraph) -> IntArray:
    """The copies of pageable memory for work that the host does in pauses: what comes from the GPU
    before a pause that no launch of a kernel precedes, and what goes back in as many bytes.

    A small one may be read for something else, such as a loss that is printed, if nothing goes
    back. A batch that follows has another size than what came. What comes and holds the host for
    longer than it then works is no part of that work: it is kept, such as outputs.
    """
    ops, stretch = graph.ops, number_stretches(graph)
    rows = np.flatnonzero(choose_ops(graph) & (ops.kind == COPY) & ops.pageable)
    rows = rows[ops.call[rows] != NONE]
    call, size = ops.call[rows].astype(np.int64), ops.bytes[rows]
    reads = match_copies(graph, COPY_TO_HOST)[rows]
    served = reads & (size >= STAGED_BYTES) & (_find_last_pauses(graph, stretch)[call] >= call)
    works = np.zeros(len(graph.calls.start) + 1, bool)
    works[stretch[call[served]]] = True
    goes_back = _match_sizes(stretch[call], size, call, reads) & works[stretch[call]]
    comes = np.asarray(rows[served & ~goes_back], np.int64)
    return np.sort(np.r_[rows[goes_back], comes[_mark_worked(graph, stretch, comes)]])


def _mark_worked(graph: RunGraph, stretch: IntArray, copies: IntArray) -> Flags:
    """A mask of the copies of ranks whose host works for LEAST_WORK of their time, or more."""
    held = np.unique(graph.ops.call[copies]).astype(np.int64)
    pauses = np.flatnonzero(graph.calls.silent > 0)
    pauses = pauses[np.isin(stretch[pauses - 1], stretch[held])]
    has_work = sum_pauses(graph, pauses) >= LEAST_WORK * sum_calls(graph, held)
    return np.asarray(has_work[graph.op_rank[copies]], np.bool_)


def sum_calls(graph: RunGraph, calls: IntArray) -> IntArray:
    """The time (ns) in these calls by rank."""
    return _sum_ranks(graph, calls, graph.calls.end - graph.calls.start)


def sum_pauses(graph: RunGraph, calls: IntArray) -> IntArray:
    """The time (ns) of the host's own pauses before these calls by rank."""
    return _sum_ranks(graph, calls, measure_own_pauses(graph, Weights.of(graph)))


def _sum_ranks(graph: RunGraph, calls: IntArray, time: IntArray) -> IntArray:
    sums = np.bincount(graph.call_rank[calls], time[calls], minlength=len(graph.ranks))
    return np.asarray(sums, np.int64)


def number_stretches(graph: RunGraph) -> IntArray:
    """For each call the number of its stretch: from one launch of a kernel to the next one of the
    thread.
    """
    thread = graph.calls.thread
    first = np.r_[True, thread[1:] != thread[:-1]][: len(thread)]
    return np.asarray(np.cumsum(mark_launches(graph) | first) - 1, np.int64)


def _find_last_pauses(graph: RunGraph, stretch: IntArray) -> IntArray:
    """For each call the last one of its stretch after which the host pauses; NONE without one."""
    last = np.full(len(stretch), NONE)
    before = np.flatnonzero(graph.calls.silent > 0) - 1
    before = before[before >= 0]
    last[stretch[before]] = before  # the calls rise, and the last one counts
    return last[stretch]


def _match_sizes(stretch: IntArray, size: IntArray, call: IntArray, reads: Flags) -> Flags:
    """A mask of the copies that come and go back in one stretch with the same number of bytes."""
    pairs: NDArray[np.int64] = np.stack((stretch, size), axis=1)
    key = np.unique(pairs, axis=0, return_inverse=True)[1].ravel()
    first, last = np.full(len(key), np.iinfo(np.int64).max), np.full(len(key), NONE)
    np.minimum.at(first, key[reads], call[reads])
    np.maximum.at(last, key[~reads], call[~reads])
    return np.asarray(np.where(reads, call < last[key], call > first[key]), np.bool_)
