"""Find the steps of a rank: by the marks of an engine or NVTX ranges, else by the repetition of its
launches.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMMUNICATION, Activity
from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.activity.serving.marks import (
    NOT_TOLD,
    UNKNOWN,
    find_marked_iterations,
)
from gpu_profile.analysis.activity.serving.names import find_kinds
from gpu_profile.analysis.activity.serving.pauses import find_emptied, measure_pauses
from gpu_profile.analysis.activity.silence import find_silence
from gpu_profile.analysis.activity.step_period import (
    OPTIMIZER,
    RepeatedSteps,
    find_middle_of_pauses,
    repeated_steps,
)
from gpu_profile.analysis.activity.step_ranges import (
    MARKED_STEP,
    find_evaluations,
    named_steps,
    number_steps,
    silent_since,
    tell_unfinished,
)
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray, Places


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of one rank: of a training, or an engine's iterations. `host_*`: when the host issued
    each step. `start`, `end`: when the GPU worked on it.

    A step lasts on the GPU from its first operation to the first one of the next step, so the times
    of the steps add up, and an idle gap belongs to the step before it. The last step of one of
    several windows ends with its window. `source` is "range NAME", "repetition of 291 launches", or
    "" without steps; then `why_none` holds the reason, e.g. "no 3 stretches of launches are alike".
    `confidence` is 1 for ranges, else the part of the steps that launch what the typical step does.
    `number`: the numbers of the steps in the program, from 0, as --annotate marks them; else empty.
    `evaluation_ns`: ns on the GPU between each step and the next, which an evaluation takes; empty
    where none was looked for.

    Of iterations, `kind` is of serving.marks.KINDS, `batch` the number of requests (NOT_TOLD where
    unknown). `ends_empty`: no request was left after it; `empty_ns`: the ns after it
    in which there was none. Else all are empty.
    """

    source: str
    host_start: IntArray
    host_end: IntArray
    start: IntArray
    end: IntArray
    confidence: float = 1.0
    why_none: str = ""
    number: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    evaluation_ns: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    kind: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    batch: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    ends_empty: Flags = field(default_factory=lambda: np.empty(0, np.bool_))
    empty_ns: IntArray = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def are_iterations(self) -> bool:
        """Whether they are an engine's iterations, whose kinds are looked at."""
        return len(self.kind) > 0

    def __len__(self) -> int:
        return len(self.start)

    def moved(self, by: int) -> "Steps":
        """The same steps with `by` ns added to all times."""
        return replace(
            self,
            host_start=self.host_start + by,
            host_end=self.host_end + by,
            start=self.start + by,
            end=self.end + by,
        )


_NONE = np.empty(0, np.int64)
NO_STEPS = Steps("", _NONE, _NONE, _NONE, _NONE, confidence=0.0)


@once_each
def find_steps(activity: Activity) -> Steps:
    """The steps of one rank, in time order."""
    if len(iterations := _find_iterations(activity)):
        return iterations
    marked = _find_named(activity)
    if len(marked) and not _are_silent(activity, marked):
        return marked
    if activity.leader is not None:
        led = find_steps(activity.leader)
        begin = find_middle_of_pauses(activity.leader, led.host_start)
        steps = _on_gpu(activity, led.source, begin, led.host_end)
        begun = led.host_start[np.searchsorted(begin, steps.host_start)]  # one host, one begin
        return replace(steps, host_start=begun, confidence=led.confidence, why_none=led.why_none)
    series = _find_series(activity)
    if isinstance(series, str):
        why_none = series + tell_unfinished(activity.ranges)
        return marked if len(marked) else replace(NO_STEPS, why_none=why_none)
    if len(marked) and not _follow(marked, series.start):
        return marked
    steps = _leave_out(activity, series.source, series.start, series.end, series.pauses)
    steps = replace(steps, confidence=series.confidence)
    return _tell_kinds(activity, steps, series.by_copies)


def _find_series(activity: Activity) -> RepeatedSteps | str:
    """The steps by repetition, but of a loop whose events were lost from its first step on: what
    repeats before is its start-up.
    """
    silence = find_silence(activity)
    if silence and not silence.has_earlier_marks:
        return f"the recording of the GPU ends {silence.to_text()}"
    return repeated_steps(activity)


def _trains(activity: Activity) -> bool:
    """Whether an optimizer works on the GPU: engines are parts of reinforcement learning, too."""
    names = (activity.names[code] for code in list_distinct(activity.ops.full_name))
    return any(OPTIMIZER.search(name) for name in names)


def _find_iterations(activity: Activity) -> Steps:
    """The iterations of an engine as steps, each of which ends where no request was left."""
    marked = find_marked_iterations(activity.ranges)
    if marked is None or _trains(activity):
        return NO_STEPS
    steps = _on_gpu(activity, marked.source, marked.start, marked.end)
    iterations = marked.pick(np.searchsorted(marked.start, steps.host_start))
    worked = _find_work_ends(activity, steps)
    idle = np.r_[np.maximum(steps.start[1:] - worked[:-1], 0), 0][: len(steps)]
    emptied = find_emptied(iterations)
    unasked = measure_pauses(emptied, idle, steps.end - steps.start)
    end, kind, batch = steps.end - unasked, iterations.kind, iterations.batch
    return replace(steps, end=end, kind=kind, batch=batch, ends_empty=emptied, empty_ns=unasked)


def _tell_kinds(activity: Activity, steps: Steps, are_iterations: bool) -> Steps:
    """The steps with their kinds where names prove them, or where they can only be iterations.

    Without batches nobody knows whether a request was left.
    """
    kind = None if _trains(activity) else find_kinds(activity, steps.start, steps.end)
    if kind is None and not are_iterations:
        return steps
    unknown, zeros = np.full(len(steps), UNKNOWN), np.zeros(len(steps), np.int64)
    return replace(
        steps,
        kind=unknown if kind is None else kind,
        batch=zeros + NOT_TOLD,
        ends_empty=zeros > 0,
        empty_ns=zeros,
    )


def _find_work_ends(activity: Activity, steps: Steps) -> IntArray:
    """When the GPU had done all work of each step and of those before."""
    step = find_op_steps(activity, steps.host_start, steps.host_end)
    ends = np.zeros(len(steps) + 1, np.int64)  # index -1 (no step) writes the extra last cell
    np.maximum.at(ends, step, activity.ops.end[:])
    return np.maximum.accumulate(ends[:-1])


def _find_named(activity: Activity) -> Steps:
    """The steps by NVTX ranges, without the evaluations between marked steps.

    Empty where the ranges hold no GPU work, such as those of a compiler.
    """
    by_range = named_steps(activity.ranges)
    if by_range is None:
        return NO_STEPS
    source, marked, end = by_range
    if source != f"range {MARKED_STEP}":
        return _on_gpu(activity, *by_range)
    rows, trained, begin = find_evaluations(activity.ranges, marked)
    start = marked.copy()
    start[rows] = begin
    steps = _leave_out(activity, source, start, end, trained)
    place = np.searchsorted(start, steps.host_start)
    return replace(steps, number=number_steps(activity.ranges, marked[place]))


def _leave_out(
    activity: Activity, source: str, start: IntArray, end: IntArray, pauses: IntArray
) -> Steps:
    """The steps that begin at `start`, without the evaluations that begin at `pauses`."""
    begins = np.sort(np.r_[start, pauses])
    steps = _on_gpu(activity, source, begins, np.r_[begins[1:], end[-1:]])
    rows = np.flatnonzero(np.isin(steps.host_start, start))
    place = np.searchsorted(start, steps.host_start[rows])
    host_end = np.minimum(end[place], steps.host_end[rows])
    begin, end = steps.start[rows], steps.end[rows]
    between = np.where(np.diff(rows) > 1, begin[1:] - end[:-1], 0)
    evaluated = np.r_[between, 0][: len(rows)]
    return Steps(source, steps.host_start[rows], host_end, begin, end, evaluation_ns=evaluated)


def _are_silent(activity: Activity, steps: Steps) -> bool:
    """Whether half of the GPU's work is launched after the last marked optimizer.

    Hooks of torch do not run when a CUDA graph is replayed, nor in an optimizer that is compiled.
    """
    since = silent_since(activity.ranges)
    if since is None or steps.source != f"range {MARKED_STEP}":
        return False
    works = activity.ops.kind != COMMUNICATION
    launched, duration = activity.launch_starts[works], activity.ops.duration[works]
    total = duration[launched >= steps.host_start[0]].sum()
    return bool(2 * duration[launched > since].sum() >= total)


def _follow(marked: Steps, start: IntArray) -> bool:
    """Whether most of the steps that begin at `start` begin in the last named step or after it."""
    return bool(2 * np.sum(start > marked.host_start[-1]) > len(start))


def host_steps(ranges: Ranges) -> Steps:
    """The steps of a process without GPU work; their times are those on the host."""
    by_range = named_steps(ranges)
    return Steps(*by_range, by_range[1], by_range[2]) if by_range else NO_STEPS


def _on_gpu(activity: Activity, source: str, host_start: IntArray, host_end: IntArray) -> Steps:
    """The steps with their times on the GPU.

    Steps before the first or after the last GPU work are dropped (a capture that ends early). A
    step without GPU work between others is kept, with length 0.
    """
    ops = activity.ops
    step = find_op_steps(activity, host_start, host_end)
    # Ops are sorted by start. They are written in reverse, so the earliest one of each step stays.
    first = np.full(len(host_start) + 1, -1)  # index -1 (no step) writes the extra last cell
    first[step[::-1]] = np.arange(len(step), dtype=np.int32)[::-1]
    busy = np.flatnonzero(first[:-1] >= 0)
    if not len(busy):
        return NO_STEPS
    complete_steps = np.arange(busy[0], busy[-1] + 1)
    place = first[
        busy[np.searchsorted(busy, complete_steps)]
    ]  # an empty step takes the first operation of the next step
    start = np.maximum.accumulate(ops.start[place])
    last_end = max(_find_last_end(activity, step == complete_steps[-1], start), int(start[-1]))
    return Steps(
        source,
        host_start[complete_steps],
        host_end[complete_steps],
        start,
        _end_at_seams(activity, start, np.r_[start[1:], last_end]),
    )


def _end_at_seams(activity: Activity, start: IntArray, end: IntArray) -> IntArray:
    """The ends of the steps; the last one of a window ends with the window."""
    for before, after in activity.seams.tolist():
        end = np.where((start < before) & (end >= after), before, end)
    return end


def _find_last_end(activity: Activity, of_last: NDArray[np.bool_], start: IntArray) -> int:
    """When the last step's operations ended on the GPU.

    A collective can wait for a rank whose recording has ended, a receive for the next step's
    message: one that lasts a step longer than all else is left out.
    """
    ops = activity.ops
    end = int(ops.end[of_last].max())
    works = of_last & (ops.kind != COMMUNICATION)
    if len(start) < 2 or not works.any():
        return end
    quiet = int(ops.end[works].max())
    return quiet if end - quiet > float(np.median(np.diff(start))) else end


def find_op_steps(activity: Activity, start: IntArray, end: IntArray) -> Places:
    """step_of() the launch of each operation, in parts."""
    launched, parts = activity.launch_starts, range(0, max(1, len(activity.ops.start)), PART)
    steps = (step_of(launched[first : first + PART], start, end) for first in parts)
    return np.concatenate([step.astype(np.int32) for step in steps])


def step_of(time: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """The index of the step that each host time belongs to, or -1; a pause after a step belongs to
    it.
    """
    place = np.searchsorted(start, time, "right") - 1
    return np.where((place >= 0) & (time <= end[-1]), place, -1) if len(start) else place
