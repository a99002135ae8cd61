"""What is known of a rank's idle time by cause: where the host was, and what it did."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.gaps import CAUSES, Gaps, find_gaps
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.intervals import PART, Intervals
from gpu_profile.analysis.arrays.types import Flags
from gpu_profile.analysis.findings.facts.windows import is_in_steady_part
from gpu_profile.analysis.host.work import HostRecord, HostWork, host_work
from gpu_profile.analysis.modules.gap_places import NOWHERE, GapPlace, find_gap_places


@dataclass(frozen=True, eq=False)
class IdleFacts:
    """Causes are the numbers of CAUSES in activity/idle/gaps.py; times are of the steady part.

    `places`: idle ns by (cause, module or NVTX range that the host was in). `longest`: (ns, at ns
    on the run's clock) of the longest gap by cause. `host_work`: by cause.
    """

    places: Mapping[tuple[int, GapPlace], int]
    longest: Mapping[int, tuple[int, int]]
    host_work: Mapping[int, HostWork]

    def find_top_place(self, cause: int) -> tuple[GapPlace, float]:
        """(place, part 0 to 1) of the module or range with most of the idle time of this cause."""
        times = {place: ns for (why, place), ns in self.places.items() if why == cause}
        if not times:
            return NOWHERE, 0.0
        place = max(sorted(times, key=str), key=lambda key: times[key])
        return place, times[place] / sum(times.values())


def collect_idle_facts(activity: Activity, offset_ns: int, record: HostRecord) -> IdleFacts:
    """The facts of one rank; `offset_ns` is added to its times to get the run's clock."""
    return IdleFacts(
        _sum_places(activity), _find_longest(activity, offset_ns), host_work(activity, record)
    )


def _sum_places(activity: Activity) -> dict[tuple[int, GapPlace], int]:
    gaps = find_gaps(activity)
    place, places = find_gap_places(activity)
    steady, sums = _mark_steady_gaps(activity, gaps), np.zeros(len(CAUSES) * len(places))
    for first in range(0, len(place), PART):
        part = slice(first, first + PART)
        # Each combination is encoded as one integer: np.unique on rows of a matrix takes seconds.
        code = gaps.cause[part] * np.int64(len(places)) + place[part]
        time = (gaps.end[part] - gaps.start[part]) * steady[part]
        sums += np.bincount(code, weights=time, minlength=len(sums))
    return {
        (int(key) // len(places), places[int(key) % len(places)]): round(float(sums[key]))
        for key in np.flatnonzero(sums)
    }


def _mark_steady_gaps(activity: Activity, gaps: Gaps) -> Flags:
    """A mask of the gaps of the steady part, without those in which an engine had no request."""
    steps = find_steps(activity)
    pauses = np.flatnonzero(steps.empty_ns)
    unasked = Intervals(steps.end[pauses], steps.end[pauses] + steps.empty_ns[pauses])
    return is_in_steady_part(activity, gaps.start) & ~unasked.touches(gaps.start, gaps.end)


def _find_longest(activity: Activity, offset_ns: int) -> dict[int, tuple[int, int]]:
    gaps = find_gaps(activity)
    length, longest_by_cause = gaps.end - gaps.start, {}
    steady = _mark_steady_gaps(activity, gaps)
    for cause in np.flatnonzero(np.bincount(gaps.cause[steady])).tolist():
        rows = np.flatnonzero((gaps.cause == cause) & steady)
        longest = rows[np.argmax(length[rows])]
        longest_by_cause[cause] = (int(length[longest]), int(gaps.start[longest]) + offset_ns)
    return longest_by_cause
