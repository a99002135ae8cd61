"""Find the steps of a rank: by the marks of an engine or NVTX ranges, else by the repetition of its
launches.
"""

from dataclasses import replace

import numpy as np

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
from gpu_profile.analysis.activity.steps.place_on_gpu import (
    find_work_ends,
    leave_out,
    place_on_gpu,
)
from gpu_profile.analysis.activity.steps.step_period import (
    OPTIMIZER,
    RepeatedSteps,
    find_middle_of_pauses,
    repeated_steps,
)
from gpu_profile.analysis.activity.steps.step_ranges import (
    MARKED_STEP,
    find_evaluations,
    named_steps,
    number_steps,
    silent_since,
    tell_unfinished,
)
from gpu_profile.analysis.activity.steps.steps import NO_STEPS, Steps
from gpu_profile.analysis.activity.steps.turns_of_passes import join_turns
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray


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
        steps = place_on_gpu(activity, led.source, begin, led.host_end)
        begun = led.host_start[np.searchsorted(begin, steps.host_start)]  # one host, one begin
        return replace(steps, host_start=begun, confidence=led.confidence, why_none=led.why_none)
    series = _find_series(activity)
    if isinstance(series, str):
        why_none = series + tell_unfinished(activity.ranges)
        return marked if len(marked) else replace(NO_STEPS, why_none=why_none)
    if len(marked) and not _follow(marked, series.start):
        return marked
    steps = leave_out(activity, series.source, series.start, series.end, series.pauses)
    steps = replace(steps, confidence=series.confidence)
    return _tell_kinds(activity, steps, series.by_copies)


def _find_series(activity: Activity) -> RepeatedSteps | str:
    """The steps by repetition, but of a loop whose events were lost from its first step on: what
    repeats before is its start-up.
    """
    silence = find_silence(activity)
    if silence and not silence.has_earlier_marks:
        return f"the recording of the GPU ends {silence.to_text()}"
    series = repeated_steps(activity)
    if isinstance(series, str) or _trains(activity):
        return series
    return join_turns(activity, series)


def _trains(activity: Activity) -> bool:
    """Whether an optimizer works on the GPU: engines are parts of reinforcement learning, too."""
    names = (activity.names[code] for code in list_distinct(activity.ops.full_name))
    return any(OPTIMIZER.search(name) for name in names)


def _find_iterations(activity: Activity) -> Steps:
    """The iterations of an engine as steps, each of which ends where no request was left."""
    marked = find_marked_iterations(activity.ranges)
    if marked is None or _trains(activity):
        return NO_STEPS
    steps = place_on_gpu(activity, marked.source, marked.start, marked.end)
    iterations = marked.pick(np.searchsorted(marked.start, steps.host_start))
    worked = find_work_ends(activity, steps)
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


def _find_named(activity: Activity) -> Steps:
    """The steps by NVTX ranges, without the evaluations between marked steps.

    Empty where the ranges hold no GPU work, such as those of a compiler.
    """
    by_range = named_steps(activity.ranges)
    if by_range is None:
        return NO_STEPS
    source, marked, end = by_range
    if source != f"range {MARKED_STEP}":
        return place_on_gpu(activity, *by_range)
    rows, trained, begin = find_evaluations(activity.ranges, marked)
    start = marked.copy()
    start[rows] = begin
    steps = leave_out(activity, source, start, end, trained)
    place = np.searchsorted(start, steps.host_start)
    return replace(steps, number=number_steps(activity.ranges, marked[place]))


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
