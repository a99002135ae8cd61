"""Whether a capture is complete: lost events, unrecorded kernels and profiler overhead."""

import re
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.database import Database

LAUNCH_NAME = re.compile(r"cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel")
CAPTURING_NAME = re.compile(r"(cuda|cu)(StreamBeginCapture|GraphLaunch)")
# nsys warns "might have been collected" after every cudaProfilerStop, so that text is no sign of
# loss and does not match.
LOST = re.compile(r"\b(dropped|lost|discarded|overflow\w*|out of (memory|space)|too many)\b", re.I)
# An annotation with an invalid name is the program's own mistake (JAX 0.11 makes some): it costs a
# name, not an event of the GPU, and no smaller capture would keep it.
NAMELESS = re.compile(r"NVTX annotations? (was|were) discarded")
ERROR = 3


@dataclass(frozen=True)
class Health:
    """Counts and times (ns) of one rank. `span` is from its first GPU operation to its last."""

    report: str
    rank: int
    span: int
    operations: int
    orphans: int
    launches: int
    unseen: int
    overhead: int

    @property
    def unseen_share(self) -> float:
        """The part of the launches whose kernel was not recorded, 0 to 1."""
        return self.unseen / max(1, self.launches)


@dataclass(frozen=True)
class ReportHealth:
    """The health of the ranks in one report, and the sorted texts of its diagnostics that mean
    loss.
    """

    report: str
    ranks: tuple[Health, ...]
    losses: tuple[str, ...]
    warnings: int
    joined: bool = False
    """A later window: its ranks are listed with the report of their first window."""


@once_each
def _get_health_cache(activity: Activity) -> dict[str, Health]:
    return {}


def rank_health(activity: Activity, report: str) -> Health:
    """The health of one rank, computed once."""
    cache = _get_health_cache(activity)
    if report not in cache:
        cache[report] = _measure_health(activity, report)
    return cache[report]


def _measure_health(activity: Activity, report: str) -> Health:
    """Count the orphans and the unseen launches of one rank.

    `orphans` are operations without the call that launched them. `unseen` are launches before the
    last operation whose kernel was not recorded. `unseen` is 0 with CUDA graphs, because a launch
    in a stream capture has no kernel of its own.
    """
    ops, calls = activity.ops, activity.calls
    first, last = int(ops.start[0]), int(ops.end.max())
    launches = np.flatnonzero(calls.named(activity.names, LAUNCH_NAME) & (calls.end < last))
    captured = bool(calls.named(activity.names, CAPTURING_NAME).any())
    unseen = 0 if captured else int(np.count_nonzero(~activity.asked[launches]))
    edges = np.array([first]), np.array([last])
    overhead = int(activity.overhead.within(*edges)[0])
    orphans = int((ops.call == NO_CALL).sum())
    numbers = (len(ops.start), orphans, len(launches), unseen, overhead)
    return Health(report, activity.rank, last - first, *numbers)


def report_health(database: Database, activities: tuple[Activity, ...]) -> ReportHealth:
    """The health of a report, from its DIAGNOSTIC_EVENT table and its ranks."""
    report = database.path.name
    ranks = tuple(rank_health(activity, report) for activity in activities)
    rows = database.rows("DIAGNOSTIC_EVENT", "severity", "text")
    severe = {
        _format_line(text) for severity, text in rows if severity == ERROR or _tells_loss(str(text))
    }
    warnings = sum(severity == 2 for severity, _ in rows)
    return ReportHealth(report, ranks, tuple(sorted(severe)), warnings)


def _tells_loss(text: str) -> bool:
    return bool(LOST.search(text) and not NAMELESS.search(text))


def _format_line(text: object) -> str:
    """The text on one line, with the absolute paths in nsys' messages replaced by "(path)"."""
    return re.sub(r"(/[\w.\-]+){2,}", "(path)", " ".join(str(text).split()))
