"""Marks of GPU work that go on after a rank's last GPU operation: its events were lost.

A program that stops to use its GPU (an evaluation on the CPU, a checkpoint) makes no such marks:
they are the steps of its training, and XLA's ranges around each run of a module on the GPU.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.edges import QUEUE_DEPTH, allowed_edge, starts_program
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER
from gpu_profile.analysis.activity.steps.step_ranges import named_steps
from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

# XLA's range around a run of a module on its GPU (JAX 0.11). In three recordings with all their
# events each of 1,592 of them holds CUDA calls.
XLA_RUN = re.compile(r"(\w+:)?XlaModule:")
LAUNCHES = re.compile(r"(cuda|cu)(Launch(Cooperative)?Kernel|GraphLaunch)")
# Marks before the last operation that have GPU work: only then do later ones without any tell.
NEARLY_ALL = 0.9
CUT = 2
"""A step is cut at either edge of a window."""


@dataclass(frozen=True)
class Silence:
    """`silent` of `marks` begin after the last operation, which ends at `since`; the last one
    begins at `last` (ns). `what` they are: "steps" or "runs of XLA modules". `has_earlier_marks`:
    marks of the same names came before.
    """

    what: str
    silent: int
    marks: int
    since: int
    last: int
    has_earlier_marks: bool

    def to_text(self) -> str:
        """For example "before 48 of 163 steps: at 14.50 s, and they go on to 18.07 s"."""
        times = f"at {self.since / 1e9:.2f} s, and they go on to {self.last / 1e9:.2f} s"
        return f"before {self.silent} of {self.marks} {self.what}: {times}"


@once_each
def find_silence(activity: Activity) -> Silence | None:
    """The first kind of marks that goes on without GPU work; None at the edge of a window."""
    silences = (_judge(activity, *marks) for marks in _list_marks(activity))
    return next(filter(None, silences), None)


def _list_marks(activity: Activity) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Yield (what they are, begin, name) of the marks that tell of GPU work, in time order."""
    ranges = activity.ranges
    if (steps := named_steps(ranges)) is not None:
        yield "steps", steps[1], np.zeros(len(steps[1]), np.int64)
    runs = [code for code, name in enumerate(ranges.names) if XLA_RUN.match(name)]
    rows = np.flatnonzero(is_among(ranges.name, runs))
    yield "runs of XLA modules", ranges.start[rows], ranges.name[rows]


def _judge(activity: Activity, what: str, begin: IntArray, name: IntArray) -> Silence | None:
    is_after = begin > activity.launch_starts.max()
    silent = int(np.count_nonzero(is_after))
    if not silent:
        return None  # as mostly: the sort takes 0.07 s of a million launches
    launched = np.sort(activity.launch_starts[:])
    worked = np.diff(np.searchsorted(launched, np.r_[begin, FOREVER]))[~is_after] > 0
    alike = int(np.count_nonzero(np.isin(name, name[is_after])))
    if silent <= _allow(activity, alike, len(worked)):
        return None
    if not len(worked) or np.mean(worked) < NEARLY_ALL:
        return None
    recorded = bool(np.isin(name[is_after], name[~is_after]).all())
    since = int(activity.ops.end.max())
    return Silence(what, silent, len(begin), since, int(begin[-1]), recorded)


def _allow(activity: Activity, marks: int, worked: int) -> float:
    """How many of so many marks of a name may come after the last operation.

    The end of a window cuts off what the launch queue holds. A recording of the whole program has
    the launches of what was queued.
    """
    ops, calls, end = activity.ops, activity.calls, int(activity.ops.end.max())
    kernels = np.count_nonzero(is_among(ops.kind, (COMPUTE, COMMUNICATION))) / max(1, worked)
    launches = calls.match_names(activity.names, LAUNCHES) & (calls.start > end)
    is_whole = starts_program(activity, end) and not launches.any()
    queued = 0 if is_whole else QUEUE_DEPTH / max(kernels, 1)
    return max(allowed_edge(marks), CUT + queued)
