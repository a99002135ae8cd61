"""Results that several of our tables need, computed once for each open report."""

from collections.abc import Iterator

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.join_windows import join_activities, join_ranges
from gpu_profile.analysis.activity.load.activities import in_order, load_activities
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges, load_ranges
from gpu_profile.analysis.activity.states import RankStates, rank_states
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.store.schema import NVTX, pid_of, process_of
from gpu_profile.analysis.tables.analysis import Scope


@once_each
def _get_split_cache(database: Database) -> dict[tuple[object, ...], tuple[Activity, ...]]:
    """What activities_of() has read of it. No field of Database: the store knows no Activity."""
    return {}


def activities_of(database: Database, scope: Scope) -> tuple[Activity, ...]:
    """The activities of a report, with the operations of its later windows joined to the first
    one.

    The result is read once for each numbering of the ranks. It is empty for a later window,
    because that window is read together with the first one.
    """
    if scope.is_joined:
        return ()
    places = tuple(window.place for window in scope.later)
    cache, key = _get_split_cache(database), (*sorted(scope.ranks.items()), *places)
    if key not in cache:
        cache[key] = _with_later(load_activities(database, scope), scope)
    return cache[key]


def _with_later(first: tuple[Activity, ...], scope: Scope) -> tuple[Activity, ...]:
    later: dict[tuple[int, int], list[tuple[Activity, int]]] = {}
    for window in scope.later:
        with open_report(window.place) as database:
            for activity in load_activities(database, Scope(window.ranks)):
                later.setdefault((activity.rank, activity.device), []).append(
                    (activity, window.shift_ns)
                )
    joined = [
        join_activities(activity, later.get((activity.rank, activity.device), ()))
        for activity in first
    ]
    return in_order(joined) if later else first


def host_ranges_of(database: Database, scope: Scope) -> Iterator[tuple[int, Ranges]]:
    """The rank and the closed NVTX ranges of each process that has any, for reports without GPU
    work.
    """
    if scope.is_joined:
        return
    threads, number = database.load(NVTX, "globalTid", sort=False)["globalTid"], 0
    for process in list_distinct(process_of(threads)):
        ranges = _all_windows(load_ranges(database, process), process, scope)
        ranges = ranges.pick(np.flatnonzero(ranges.end != FOREVER))
        if len(ranges.start):
            yield scope.ranks.get(int(pid_of(np.array(process))), number), ranges
            number += 1


def _all_windows(ranges: Ranges, process: int, scope: Scope) -> Ranges:
    for window in scope.later:
        with open_report(window.place) as database:
            ranges = join_ranges(ranges, load_ranges(database, process), window.shift_ns)
    return ranges


def states_of(database: Database, scope: Scope) -> list[RankStates]:
    """The time by state of each rank, on the run's clock; small when pickled."""
    return [rank_states(part, scope.offset_ns) for part in activities_of(database, scope)]


def compute_share(part: float, total: float) -> float | None:
    """`part` as a percentage of `total`, rounded to two decimals; None if `total` is 0."""
    return round(100 * part / total, 2) if total else None
