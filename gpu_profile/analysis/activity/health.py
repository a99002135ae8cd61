"""Whether a capture is complete: lost events, unrecorded kernels, missing steps, overhead."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    NO_CALL,
    Activity,
    Calls,
    Ops,
)
from gpu_profile.analysis.activity.edges import QUEUE_DEPTH, WINDOW_EDGE, allowed_edge
from gpu_profile.analysis.activity.failed_import import tell_failed_import
from gpu_profile.analysis.activity.serving.processes import OtherProcess, list_other_processes
from gpu_profile.analysis.activity.silence import Silence, find_silence
from gpu_profile.analysis.arrays.columns import encode_column, find_first_rows, is_among
from gpu_profile.analysis.arrays.intervals import PART
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags
from gpu_profile.analysis.store.cells import integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import KERNEL, RUNTIME

LAUNCH_NAME = re.compile(r"cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel")
CAPTURING_NAME = re.compile(r"(cuda|cu)(StreamBeginCapture|GraphLaunch)")
# nsys warns "might have been collected" after every cudaProfilerStop, so that text is no sign of
# loss and does not match.
LOST = re.compile(r"\b(dropped|lost|discarded|overflow\w*|out of (memory|space)|too many)\b", re.I)
# An annotation with an invalid name is the program's own mistake (JAX 0.11 makes some): it costs a
# name, not an event of the GPU, and no smaller capture would keep it.
NAMELESS = re.compile(r"NVTX annotations? (was|were) discarded")
ERROR = 3
# The edges of a window cut off a few launches; more than 1 % are lost events. In the 46 recordings
# of tests/data each launch has its kernel, each kernel its launch and 0.6 us or more.
LOST_SHARE = 0.01
# The end of a recording cuts off what is queued: on a stream of compute and one of communication.
# A window begins with the kernels of as many launches that came before it.
MOST_QUEUED = 2 * QUEUE_DEPTH


@dataclass(frozen=True)
class Health:
    """Counts and times (ns) of one rank. `span` is from its first GPU operation to its last.

    `orphans`: operations without the call that launched them. `unseen_launches`: launches before
    the last operation whose kernel was not recorded; 0 where that cannot be known. `after_last`:
    launches after the last operation. `queued_orphans`: orphans before the first operation of their
    stream that has its call, as a window begins with. `untimed_kernels`: kernels that end when they
    start. `silence`: marks of GPU work that go on after the last operation.
    """

    report: str
    rank: int
    span: int
    operations: int
    orphans: int
    launches: int
    unseen_launches: int
    overhead: int
    after_last: int = 0
    queued_orphans: int = 0
    kernels: int = 0
    untimed_kernels: int = 0
    silence: Silence | None = None

    @property
    def unseen_share(self) -> float:
        """The part of the launches whose kernel was not recorded, 0 to 1."""
        return self.unseen_launches / max(1, self.launches)

    @property
    def has_calls(self) -> bool:
        """Whether any operation has the call that launched it: CUDA calls were recorded at all."""
        return self.orphans < self.operations

    def list_losses(self) -> tuple[str, ...]:
        """What was lost beyond a window's edges: counts, and the table that lacks it."""
        total = self.launches + self.after_last
        losses = []
        if self.unseen_launches > LOST_SHARE * self.launches:
            launches = f"the kernels of {self.unseen_launches} of {self.launches} launches"
            losses.append(f"{KERNEL} lacks {launches}")
        if self.after_last > max(LOST_SHARE * total, MOST_QUEUED):
            losses.append(f"{KERNEL} ends before {self.after_last} of {total} launches")
        if self.silence:
            losses.append(f"{KERNEL} ends {self.silence.to_text()}")
        if self.untimed_kernels > LOST_SHARE * self.kernels:
            losses.append(
                f"{KERNEL} has no duration of {self.untimed_kernels} of {self.kernels} kernels"
            )
        begun = self.queued_orphans if self.has_calls and self.queued_orphans <= MOST_QUEUED else 0
        if self.orphans - begun > LOST_SHARE * self.operations:
            operations = f"{self.orphans} of {self.operations} operations"
            losses.append(f"{RUNTIME} lacks the calls that launched {operations}")
        return tuple(losses)


@dataclass(frozen=True)
class ReportHealth:
    """The health of the ranks in one report, the sorted texts of its diagnostics that mean loss,
    and its processes without GPU work.
    """

    report: str
    ranks: tuple[Health, ...]
    losses: tuple[str, ...]
    warnings: int
    others: tuple[OtherProcess, ...] = ()
    is_joined: bool = False
    """A later window: its ranks are listed with the report of their first window."""


@once_each
def rank_health(activity: Activity, report: str) -> Health:
    """Count the orphans and the unseen launches of one rank.

    `unseen_launches` is 0 with CUDA graphs, because a launch in a stream capture has no kernel of
    its own, and in a process with several GPUs, because a launch does not tell on which of them it
    ran.
    """
    ops, calls = activity.ops, activity.calls
    first, last = int(ops.start[0]), int(ops.end.max())
    is_launch = calls.match_names(activity.names, LAUNCH_NAME)
    launches = is_launch & _end_before(calls, last)
    captured = bool(calls.match_names(activity.names, CAPTURING_NAME).any())
    unknown = captured or activity.shares_process
    kernels = is_among(ops.kind, (COMPUTE, COMMUNICATION))
    edges = np.array([first]), np.array([last])
    return Health(
        report=report,
        rank=activity.rank,
        span=last - first,
        operations=len(ops.start),
        orphans=int((ops.call == NO_CALL).sum()),
        launches=int(np.count_nonzero(launches)),
        unseen_launches=0 if unknown else int(np.count_nonzero(launches & ~activity.launches_op)),
        overhead=int(activity.overhead.within(*edges)[0]),
        after_last=0 if unknown else int(np.count_nonzero(is_launch & (calls.start > last))),
        queued_orphans=_count_queued(ops),
        kernels=int(np.count_nonzero(kernels)),
        untimed_kernels=int(np.count_nonzero(kernels & (ops.length == 0))),
        silence=find_silence(activity),
    )


def _end_before(calls: Calls, time: int) -> Flags:
    """A mask of the calls that end before this time."""
    ended = np.zeros(len(calls.start), bool)
    for first in range(0, len(ended), PART):
        part = slice(first, first + PART)
        np.less(calls.end[part], time, out=ended[part])
    return ended


def _count_queued(ops: Ops) -> int:
    """Count the operations before the first of their stream whose call was recorded."""
    unknown = np.flatnonzero(ops.call == NO_CALL)
    if not len(unknown):
        return 0
    attributed = np.flatnonzero(ops.call != NO_CALL)
    code, streams = encode_column(ops.stream)
    first = np.full(len(streams), len(ops.start))
    rows = attributed[find_first_rows(code[attributed])]
    first[code[rows]] = rows
    return int(np.count_nonzero(unknown < first[code[unknown]]))


def report_health(database: Database, activities: tuple[Activity, ...]) -> ReportHealth:
    """The health of a report, from its DIAGNOSTIC_EVENT table and its ranks."""
    report = database.path.name
    ranks = tuple(rank_health(activity, report) for activity in activities)
    columns = integer_or_none("severity"), text("text")
    rows = read_records(database, "DIAGNOSTIC_EVENT", *columns)
    severe = {
        _format_line(line) for severity, line in rows if severity == ERROR or _tells_loss(line)
    }
    if failed := tell_failed_import(database, [line for _, line in rows]):
        severe.add(failed)
    warnings = sum(severity == 2 for severity, _ in rows)
    others = list_other_processes(database, {activity.process for activity in activities})
    return ReportHealth(report, ranks, tuple(sorted(severe)), warnings, others)


def _tells_loss(text: str) -> bool:
    return bool(LOST.search(text) and not NAMELESS.search(text))


def _format_line(text: str) -> str:
    """The text on one line, with the absolute paths in nsys' messages replaced by "(path)"."""
    return re.sub(r"(/[\w.\-]+){2,}", "(path)", " ".join(text.split()))


@dataclass(frozen=True)
class Extent:
    """How much one rank recorded: its steps, and the ns from its first operation to its last, less
    the start-up.

    `kernels` are those of a step. `has_start_up`: the recording began with the program.
    """

    rank: int
    steps: int
    span: int
    kernels: float
    has_start_up: bool


def find_short(extents: Sequence[Extent]) -> tuple[Extent, ...]:
    """The ranks with fewer steps than the one with most, because they recorded for less time.

    A window (--delay, --duration, a capture range, stop) cuts off steps at its edges, and not as
    many on each rank: nsys may start seconds apart on two ranks. A rank that recorded for as long
    as the others is not short, even with fewer steps.
    """
    longest = max((extent.span for extent in extents), default=0)
    most = most_steps(extents)
    if not most:
        return ()
    limit = most - _edge(extents, most)
    return tuple(
        extent
        for extent in extents
        if extent.steps < limit and extent.span <= longest * (most + extent.steps) / (2 * most)
    )


def most_steps(extents: Sequence[Extent]) -> int:
    """Return the steps of the rank that recorded most; 0 without ranks."""
    return max((extent.steps for extent in extents), default=0)


def _edge(extents: Sequence[Extent], most: int) -> float:
    """How many steps fewer than `most` a rank may have recorded."""
    if all(extent.has_start_up for extent in extents):
        return allowed_edge(most)
    kernels = max(extent.kernels for extent in extents if extent.steps)
    # A window cuts off by the time of the host's calls. By as many steps as a full launch queue
    # makes ranks may differ; each of the two edges cuts a step as well.
    return max(1, WINDOW_EDGE * most, 2 + QUEUE_DEPTH / max(kernels, 1))
