"""What several of our tables need of one report, made once and kept while it is open."""

from collections.abc import Iterator

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.load import activities
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges, load_ranges
from gpu_profile.analysis.activity.states import RankStates, rank_states
from gpu_profile.analysis.arrays.columns import present
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import NVTX, pid_of, process_of
from gpu_profile.analysis.tables.analysis import Scope


@once_each
def _known(database: Database) -> dict[tuple[tuple[int, int], ...], tuple[Activity, ...]]:
    return {}


def activities_of(database: Database, scope: Scope) -> tuple[Activity, ...]:
    """The ranks of a report, read at most once for each way to number them."""
    known, key = _known(database), tuple(sorted(scope.ranks.items()))
    if key not in known:
        known[key] = activities(database, scope)
    return known[key]


def host_ranges_of(database: Database, scope: Scope) -> Iterator[tuple[int, Ranges]]:
    """Rank and closed NVTX ranges of each process that has any: what one without a GPU shows."""
    threads, number = database.load(NVTX, "globalTid", sort=False)["globalTid"], 0
    for process in present(process_of(threads)):
        ranges = load_ranges(database, process)
        ranges = ranges.pick(np.flatnonzero(ranges.end != FOREVER))
        if len(ranges.start):
            yield scope.ranks.get(int(pid_of(np.array(process))), number), ranges
            number += 1


def states_of(database: Database, scope: Scope) -> list[RankStates]:
    """Each rank's time by state, in the run's clock; small."""
    return [rank_states(part, scope.offset_ns) for part in activities_of(database, scope)]


def share(part: float, whole: float) -> float | None:
    """Percent with a decimal or two, or None where there is nothing to share."""
    return round(100 * part / whole, 2) if whole else None
