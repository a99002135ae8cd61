"""What the host did while the GPU idled because of it: functions, data loading, waits."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpu_profile.analysis.activity.activity import COPY, COPY_TO_DEVICE, COPY_TO_HOST, Activity
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES, blocking_calls
from gpu_profile.analysis.activity.idle.gaps import SYNC, Gaps, find_gaps
from gpu_profile.analysis.activity.start_up import steady_window
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.host.functions import top_functions
from gpu_profile.analysis.host.pauses import GARBAGE, list_compilations, load_pause_marks
from gpu_profile.analysis.host.samples import HOST_CAUSES, samples_in
from gpu_profile.analysis.host.stacks import NO_STACKS, HostStacks, load_stacks
from gpu_profile.analysis.host.waits import NO_WAITS, QUEUE, HostWaits, load_waits
from gpu_profile.analysis.store.database import Database

# At least 5 samples and half of the time are needed to name one cause for a gap.
FEWEST_SAMPLES, MOST_OF_IT = 5, 0.5
_TOP, _SHOWN_SHARE, _SHOWN_INTERRUPTION = 5, 0.2, 0.05


@dataclass(frozen=True)
class HostRecord:
    """The host's stacks and waits in a report, besides CUDA and NVTX.

    `interruptions`: for each globalTid, the time that is no function's own: "garbage collection",
    "compilation of train_step (train.py:30)".
    """

    stacks: HostStacks = NO_STACKS
    waits: HostWaits = NO_WAITS
    interruptions: Mapping[int, Mapping[str, Intervals]] = field(default_factory=dict)


@dataclass(frozen=True)
class HostWork:
    """What the host did in one rank's gaps of one cause.

    `samples` of the launching threads are in the gaps, of these `loading` in a data loader.
    `functions` are the most frequent ones, (name and place, samples). `idle` is the total of the
    gaps (ns). `waits` is how much of it the thread waited (ns), by kind; `interruptions` likewise
    of collections and compilations, which the samples leave out. `to_device` is the time
    (ns) of gaps that end with a copy to the GPU and do not begin with a large copy from it,
    `to_host` of gaps that end with a large copy from it. `steps` is the number of steady steps, 1
    without steps.
    """

    kind: str = ""
    samples: int = 0
    loading: int = 0
    functions: tuple[tuple[str, int], ...] = ()
    idle: int = 0
    waits: Mapping[str, int] = field(default_factory=dict)
    interruptions: Mapping[str, int] = field(default_factory=dict)
    has_loader: bool = False
    to_device: int = 0
    to_host: int = 0
    steps: int = 1

    @property
    def is_loading(self) -> bool:
        """Whether the host waited for data or loaded it, as far as the recording shows."""
        if self.samples >= FEWEST_SAMPLES:
            return self.loading >= MOST_OF_IT * self.samples
        return self.has_loader and self.waits.get(QUEUE, 0) >= MOST_OF_IT * max(self.idle, 1)

    @property
    def before_input(self) -> bool:
        """Whether at least half of the idle time ends with a copy to the GPU, as of a new batch."""
        return self.to_device >= MOST_OF_IT * max(self.idle, 1)

    @property
    def names_other(self) -> bool:
        """Whether a cause is named that is no data loader: a function, a collection, a compilation,
        a sleep or files.
        """
        is_elsewhere = self.samples >= FEWEST_SAMPLES and not self.is_loading
        waits = [ns for what, ns in self.waits.items() if what != QUEUE]
        longest = max((*self.interruptions.values(), *waits), default=0)
        return is_elsewhere or longest >= MOST_OF_IT * max(self.idle, 1)

    def lines(self) -> list[str]:
        """Lines of evidence; empty if the recording has no samples or waits."""
        evidence = self._list_interruptions()
        if self.samples >= FEWEST_SAMPLES:
            evidence += [
                self._describe_function(name, count)
                for place, (name, count) in enumerate(self.functions)
                if place == 0 or count >= _SHOWN_SHARE * self.samples
            ]
            if self.loading:
                share = 100 * self.loading / self.samples
                evidence.append(f"{share:.0f} % of the samples are in the data loader")
        for what, ns in self.waits.items():
            if ns >= MOST_OF_IT * max(self.idle, 1):
                evidence.append(f"{100 * ns / self.idle:.0f} % of it the thread waited for {what}")
        if self.before_input:
            share = 100 * self.to_device / self.idle
            evidence.append(f"{share:.0f} % of it ends with a copy to the GPU, as a new batch does")
        if self.to_host >= MOST_OF_IT * max(self.idle, 1):
            share = 100 * self.to_host / self.idle
            evidence.append(
                f"{share:.0f} % of it ends with a large copy from the GPU, as of a result or a "
                "checkpoint"
            )
        return evidence

    @property
    def is_named(self) -> bool:
        """Whether a function, a collection or a compilation is named for half of the time."""
        named = max(self.interruptions.values(), default=0)
        return self.samples >= FEWEST_SAMPLES or named >= MOST_OF_IT * max(self.idle, 1)

    @property
    def is_collecting(self) -> bool:
        """Whether half of the idle time is garbage collection."""
        return self.interruptions.get(GARBAGE, 0) >= MOST_OF_IT * max(self.idle, 1)

    def _list_interruptions(self) -> list[str]:
        """For example "garbage collection: 12.30 ms a step"."""
        ordered = sorted(self.interruptions.items(), key=lambda item: (-item[1], item[0]))
        return [
            f"{what}: {ns / self.steps / 1e6:.2f} ms a step"
            for what, ns in ordered[:_TOP]
            if ns >= _SHOWN_INTERRUPTION * self.idle
        ]

    def _describe_function(self, name: str, count: int) -> str:
        """For example "38.00 ms a step in collate (data.py:41): 58 % of 120 Python samples"."""
        share = count / self.samples
        idle = self.idle - sum(self.interruptions.values())
        ms = share * max(idle, 0) / self.steps / 1e6
        samples = f"{100 * share:.0f} % of {self.samples} {self.kind} samples"
        return f"{ms:.2f} ms a step in {name}: {samples}"


def load_host_record(database: Database) -> HostRecord:
    """Read what shows the host's work: samples, waits and interruptions; each may be empty."""
    stacks = next(iter(load_stacks(database)), NO_STACKS)
    return HostRecord(stacks, load_waits(database), _load_interruptions(database))


def _load_interruptions(database: Database) -> Mapping[int, Mapping[str, Intervals]]:
    by_thread: dict[int, dict[str, Intervals]] = {}
    for thread, pieces in load_pause_marks(database).pick(GARBAGE).by_thread.items():
        by_thread.setdefault(thread, {})[GARBAGE] = pieces
    for compilation in list_compilations(database):
        of_thread = by_thread.setdefault(compilation.thread, {})
        what = f"compilation of {compilation.function}"
        before = of_thread.get(what, NOTHING)
        start, end = np.r_[before.start, compilation.start], np.r_[before.end, compilation.end]
        of_thread[what] = Intervals.union(start, end)
    return by_thread


def host_work(activity: Activity, record: HostRecord) -> dict[int, HostWork]:
    """HostWork of the steady part by cause: each of HOST_CAUSES, and SYNC for blocking calls."""
    gaps, (first, last) = find_gaps(activity), steady_window(activity)
    steady = (gaps.start >= first) & (gaps.start < last)
    time_by_cause = {SYNC: _in_blocking_calls(activity, record)}
    for cause in HOST_CAUSES:
        chosen = steady & (gaps.cause == cause)
        if chosen.any():
            to_device, to_host = (
                int((gaps.end[rows] - gaps.start[rows]).sum())
                for rows in map(chosen.__and__, _before_copies(activity, gaps))
            )
            thread = activity.launcher_of(gaps.next_op[chosen])
            work = _make_work(gaps.start[chosen], gaps.end[chosen], thread, record)
            time_by_cause[cause] = replace(work, to_device=to_device, to_host=to_host)
    steps = max(1, int(np.sum(find_steps(activity).start >= first)))
    return {cause: replace(work, steps=steps) for cause, work in time_by_cause.items()}


def _in_blocking_calls(activity: Activity, record: HostRecord) -> HostWork:
    """The functions that made the blocking calls other than copies, by the samples inside the
    calls.
    """
    calls = blocking_calls(activity)
    rows = np.flatnonzero(~calls.copies & (calls.start >= steady_window(activity)[0]))
    rows = rows[np.argsort(calls.start[rows], kind="stable")]
    thread = activity.calls.thread_of(calls.call[rows])
    without_waits = replace(record, waits=NO_WAITS)
    return _make_work(calls.start[rows], calls.end[rows], thread, without_waits)


def _before_copies(activity: Activity, gaps: Gaps) -> tuple[Flags, Flags]:
    """Masks of the gaps that end with a copy to the GPU, and with a large copy to the host.

    Gaps before a copy to the GPU that begin after a large copy to the host (a checkpoint) are left
    out.
    """
    ops, last = activity.ops, np.maximum(gaps.next_op - 1, 0)
    copies = ops.kind == COPY
    is_input = copies[gaps.next_op] & (ops.copy_kind[gaps.next_op] == COPY_TO_DEVICE)
    is_result = copies & (ops.copy_kind == COPY_TO_HOST) & (ops.bytes >= STAGED_BYTES)
    return is_input & ~is_result[last], is_result[gaps.next_op]


def _make_work(start: IntArray, end: IntArray, owner: IntArray, record: HostRecord) -> HostWork:
    """HostWork of these spans of time, sorted by start, each on the thread `owner`."""
    stacks = record.stacks
    inside = _leave_out(stacks, samples_in(stacks, start, end, owner), record)
    chosen = [stacks.stacks[index] for index in stacks.stack[inside].tolist()]
    return HostWork(
        kind=stacks.kind,
        samples=len(chosen),
        loading=sum(any(frame.of_loader for frame in stack) for stack in chosen),
        functions=tuple(top_functions(chosen)[:_TOP]),
        idle=int((end - start).sum()),
        waits=_sum_times(record.waits.by_thread, start, end, owner),
        interruptions=_sum_times(record.interruptions, start, end, owner),
        has_loader=record.waits.has_loader,
    )


def _sum_times(
    times: Mapping[int, Mapping[str, Intervals]], start: IntArray, end: IntArray, owner: IntArray
) -> dict[str, int]:
    """The ns of each kind of time in these spans, each on its own thread."""
    sums: Counter[str] = Counter()
    for thread, by_kind in sorted(times.items()):
        rows = np.flatnonzero(owner == thread)
        if len(rows):
            lanes = Intervals(start[rows], end[rows])
            for what, pieces in by_kind.items():
                sums[what] += lanes.meet(pieces).total
    return dict(sums)


def _leave_out(stacks: HostStacks, rows: IntArray, record: HostRecord) -> IntArray:
    """These samples without those during a collection or a compilation of their thread."""
    for thread, by_kind in record.interruptions.items():
        for pieces in by_kind.values():
            time = stacks.time[rows]
            during = (stacks.thread[rows] == thread) & pieces.touches(time, time + 1)
            rows = rows[~during]
    return rows
