"""The budget of each iteration: where its time on the GPU's clock goes. The parts sum to it."""

import re
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    COPY_TO_HOST,
    NO_CALL,
    Activity,
)
from gpu_profile.analysis.activity.idle.blocking_calls import blocking_calls
from gpu_profile.analysis.activity.load.operations import GRAPH_NAME
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.place_on_gpu import step_of
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.tables.kernel_class import classify_kernel

SAMPLING = re.compile(
    r"sampl|arg_?m(ax|in)|top_?[kp](?!ool)|multinomial|gumbel|penalt|bitmask|logits_?proc"
    r"|rejection|radix_?sort|exponential|spec(ulative)?_?(accept|verify)",
    re.IGNORECASE,
)
"""Names of the kernels that choose a token, in the three engines, FlashInfer and torch."""
WORK = ("attention", "matrix products", "sampling", "other kernels", "communication", "copies")
PART_OF_CLASS = {"attention": "attention", "GEMM": "matrix products"}
"""The part of WORK by the class of kernel_class_sum."""
NOT_SEEN = "inside graphs"
"""Graphs that nsys traced as a whole: the GPU works, and nobody knows at what."""
IDLE = ("launch", "host", "wait", "latency")
PARTS = (*WORK, NOT_SEEN, *IDLE)


@dataclass(frozen=True, eq=False)
class Budget:
    """ns by iteration and part, a column for each of PARTS; a row sums to the iteration's time."""

    parts: IntArray

    def of(self, *names: str) -> IntArray:
        """The sum of these parts in each iteration."""
        return np.asarray(self.parts[:, [PARTS.index(name) for name in names]].sum(axis=1))


@once_each
def measure_budget(activity: Activity) -> Budget:
    """The budget of each step of find_steps().

    - Work: where several operations run, the time counts to the first of WORK.
    - `launch`: the GPU waits for a call that launches, or for the host between two launches.
    - `host`: the host works between the copy of the tokens and the first kernel of the next
      iteration, or before an iteration's own first kernel.
    - `wait`: the host is still in a call that waits, while the GPU has nothing to do.
    - `latency`: the next operation was launched in time.
    """
    steps = find_steps(activity)
    edges = steps.start, steps.end
    work, busy = list[IntArray](), NOTHING
    for pieces in _list_work(activity):
        work.append(pieces.minus(busy).within(*edges))
        busy = _join(busy, pieces)
    idle = (pieces.within(*edges) for pieces in _split_idle(activity, busy))
    return Budget(np.stack([*work, *idle], axis=1))


def _join(first: Intervals, other: Intervals) -> Intervals:
    start: IntArray = np.r_[first.start, other.start]
    return Intervals.union(start, np.r_[first.end, other.end])


def _list_work(activity: Activity) -> list[Intervals]:
    """When operations of each part ran: of WORK, and of NOT_SEEN."""
    ops = activity.ops
    part = np.full(len(ops.start), WORK.index("copies"))
    part[ops.kind == COMMUNICATION] = WORK.index("communication")
    kernels = ops.kind == COMPUTE
    for code in list_distinct(ops.full_name[kernels]):
        of_name = kernels & (ops.full_name == code)
        part[of_name] = _find_part(activity.names[code])
    return [
        Intervals.union(ops.start[part == number], ops.end[part == number])
        for number in range(len(WORK) + 1)
    ]


def _find_part(name: str) -> int:
    """The place in PARTS of a kernel's name."""
    if name == GRAPH_NAME:
        return PARTS.index(NOT_SEEN)
    part = PART_OF_CLASS.get(classify_kernel(name))
    if part is None:
        part = "sampling" if SAMPLING.search(name) else "other kernels"
    return PARTS.index(part)


def _split_idle(activity: Activity, busy: Intervals) -> list[Intervals]:
    """The time without work by IDLE.

    A gap ends with an operation. Before the call that launched it the host worked, or was blocked.
    """
    ops = activity.ops
    gaps = busy.gaps()
    nexts = np.searchsorted(ops.start, gaps.end, "left")
    launch = np.clip(activity.launch_starts[nexts], gaps.start, gaps.end)
    late = (activity.launch_starts[nexts] > gaps.start) & (ops.call[nexts] != NO_CALL)
    blocking = blocking_calls(activity)
    blocked = Intervals.union(blocking.start, blocking.end)
    before = Intervals(gaps.start[late], launch[late])
    waits = before.meet(blocked)
    between = _lies_between(activity, gaps.start, nexts)
    works = Intervals(gaps.start[late & between], launch[late & between]).minus(waits)
    issues = Intervals(gaps.start[late & ~between], launch[late & ~between]).minus(waits)
    calls = Intervals(launch[late], gaps.end[late])
    latency = Intervals(gaps.start[~late], gaps.end[~late])
    return [_join(issues, calls), works, waits, latency]


def _lies_between(activity: Activity, start: IntArray, nexts: IntArray) -> Flags:
    """A mask of the gaps that lie between two iterations: after the last copy to the host of the
    iteration in which they begin, or before the first kernel of the one in which they end.
    """
    ops, steps = activity.ops, find_steps(activity)
    step = step_of(activity.launch_starts[:], steps.host_start, steps.host_end)
    rows = np.arange(len(step))
    kernels = (ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)
    first = np.full(len(steps) + 1, len(step))
    np.minimum.at(first, step[kernels], rows[kernels])
    to_host = (ops.kind == COPY) & (ops.copy_kind == COPY_TO_HOST)
    last = np.full(len(steps) + 1, len(step))
    last[:-1] = -1
    np.maximum.at(last, step[to_host], rows[to_host])
    last[last < 0] = len(step)
    before = np.maximum(nexts - 1, 0)
    return (nexts <= first[step[nexts]]) | (before >= last[step[before]])
