"""How fast the host works without the profiler, by the marks' times of three phases.

The marks time the host in the forward, the backward pass and the optimizer by one clock, in
recorded steps and in those of the control. A step's time tells it only where the host limits the
step.
"""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import find_edges
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.shadow.host_scale import MOST_PRICE_NS
from gpu_profile.analysis.replay.shadow.plain_step import PHASES, Ratios

LEAST_FACTOR, MOST_FACTOR = 0.3, 1.0
"""Of programs that the host limits the control asks for 0.39 to 0.92. A ratio beyond these is not
the profiler's: a host that runs ahead can wait for the GPU in the control alone, and in one phase
alone: the forward took 0.66 and the backward pass 1.13 times its recorded time where the GPU was
the limit. Such a phase does not count."""
MOST_WAITS, MOST_FIXED = 0.1, 0.5
"""The parts of a phase in which its calls wait for the GPU, and which the profiler does not slow:
with more the ratio is not of the host's work."""
LEAST_WORK = 0.1
"""Of the host's own work, what the phases have: less does not stand for the rest."""


@dataclass(frozen=True)
class TimedHost:
    """`factor`: of the recorded host delays, what is left without the profiler, as measured in
    these `phases`.
    """

    factor: float
    phases: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _HostTime:
    """ns by call: from the end of the one before it in its thread; of that what waits for the GPU,
    and what scale_host() leaves as it is, with these waits.
    """

    span: IntArray
    wait: IntArray
    fixed: IntArray


def measure_host(graph: RunGraph, ratios: Ratios) -> TimedHost | None:
    """The factor of the host's work, by the phases that count; None where there are none.

    What scale_host() leaves as it is takes as long in the control: the rest has the difference.
    """
    times, phases, after, before = _split_time(graph), list[str](), 0.0, 0.0
    for phase, ratio in zip(PHASES, ratios, strict=True):
        rows = _find_calls(graph, phase)
        span, wait, fixed = (int(t[rows].sum()) for t in (times.span, times.wait, times.fixed))
        is_work = wait < MOST_WAITS * span and fixed < MOST_FIXED * span
        if is_work and 0 < ratio <= MOST_FACTOR:
            phases.append(phase)
            after, before = after + ratio * span - fixed, before + span - fixed
    if before < max(1.0, LEAST_WORK * float((times.span - times.fixed).sum())):
        return None
    factor = after / before
    is_plausible = LEAST_FACTOR <= factor <= MOST_FACTOR
    return TimedHost(factor, tuple(phases)) if is_plausible else None


def _find_calls(graph: RunGraph, phase: str) -> Flags:
    """A mask of the calls in this phase, of the thread of each rank that has most of them: before
    them the program was in its range. Autograd's thread waits while the main thread is in one.
    """
    words = np.array([place.split(" ")[0] == phase for place in graph.places], np.bool_)
    rows = np.flatnonzero(words[graph.calls.place])
    thread, rank = graph.calls.thread, graph.call_rank
    count = np.bincount(thread[rows], minlength=len(graph.threads))
    most = np.zeros(len(graph.ranks), np.int64)
    np.maximum.at(most, rank[rows], count[thread[rows]])
    mask = np.zeros(len(thread), np.bool_)
    mask[rows[count[thread[rows]] == most[rank[rows]]]] = True
    return mask


def _split_time(graph: RunGraph) -> _HostTime:
    calls = graph.calls
    follows = np.zeros(len(calls.start), np.bool_)
    follows[1:] = (calls.thread[1:] == calls.thread[:-1]) & (calls.start[1:] >= calls.end[:-1])
    begin = np.where(follows, np.r_[0, calls.end[:-1]][: len(follows)], calls.start)
    took = calls.end - calls.start
    wait = np.where(calls.waits, took, _measure_queues(graph))
    long = np.maximum(took - wait - MOST_PRICE_NS, 0)
    span = calls.end - begin
    return _HostTime(span, wait, np.minimum(span, calls.silent + wait + long))


def _measure_queues(graph: RunGraph) -> IntArray:
    """The time (ns) in which each launch waited for the end of an operation that left it a place in
    the launch queue.
    """
    edges = find_edges(graph, graph.nodes.call_end, Edge.QUEUE)
    freed = np.zeros(len(graph.time), np.int64)
    np.maximum.at(freed, graph.edges.target[edges], graph.time[graph.edges.source[edges]])
    waited = np.maximum(freed[graph.nodes.call_end] - graph.calls.start, 0)
    return np.asarray(waited, np.int64)
