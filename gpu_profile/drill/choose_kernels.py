"""Choose the kernels of a rank that cost most in a step, and say where ncu finds them.

Kernels of communication are never chosen: alone, without the other ranks, they do not end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.start_up import find_start_up
from gpu_profile.analysis.activity.steps.common_steps import first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.table import Table

SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
MOST_LAUNCHES = 200
"""Launches between the first and the last chosen one; ncu replays each of them some ten times."""
_APART = 1.3
"""Launches of one name and grid whose times differ by more are different work: GEMMs of one grid
may have sums of 1,024 and of 4,096 parts."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that costs time, by its name, its launch configuration and its place.

    `short_name` is the function's name, `times` how often a step launches it, `total_ns` their
    time, `ns` that of the launch that is measured, the `place`th (from 1) of these names in the
    step, and `offset` its number among the launches that ncu measures.
    """

    name: str
    short_name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    times: int
    total_ns: int
    ns: int
    place: int
    offset: int


@dataclass(frozen=True)
class DrillPlan:
    """What ncu is to measure: `count` launches of the kernels' names, after `skip` of them.

    `step` is the step's number from 0, or -1 where the program has none; `step_ns` is its time in
    compute kernels. `far_names` are the names of kernels that are launched too far from the others.
    """

    rank: int
    device: int
    devices: int
    step: int
    step_ns: int
    kernels: tuple[Kernel, ...]
    skip: int
    count: int
    far_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Launches:
    """The compute kernels of a rank in the order of their launch."""

    launch_starts: IntArray
    duration: IntArray
    short_names: IntArray
    full: IntArray
    shape: IntArray

    def within(self, first: int, end: int) -> IntArray:
        return np.flatnonzero((self.launch_starts >= first) & (self.launch_starts < end))


def plan_drill(top: int) -> Analysis:
    """Return the analysis whose partial holds a DrillPlan of each rank of a report."""
    return Analysis("drill", partial(_collect, top=top), _no_table)


def _collect(database: Database, scope: Scope, top: int) -> list[DrillPlan]:
    activities = activities_of(database, scope)
    plans = (_plan_rank(each, database, top, len(activities)) for each in activities)
    return [plan for plan in plans if plan]


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())


def _plan_rank(activity: Activity, database: Database, top: int, devices: int) -> DrillPlan | None:
    launches = _list_launches(activity, database)
    step, first, end = _choose_step(activity)
    rows = launches.within(first, end)
    if not len(rows):
        return None
    groups = _group_launches(launches, rows)[:top]
    chosen = np.isin(launches.short_names, launches.short_names[[group[0] for group in groups]])
    picks = _pick_launches(launches, chosen, groups)
    near = [row for row in picks if abs(_count(chosen, picks[0], row)) < MOST_LAUNCHES]
    begin, last = min(near), max(near)
    origin = 0 if find_start_up(activity) or step < 0 else int(launches.within(first, end)[0])
    before = _count(chosen, _find_first_of_steps(activity, launches) if origin else 0, begin)
    starts = int(rows[0])
    return DrillPlan(
        rank=activity.rank,
        device=activity.device,
        devices=devices,
        step=step,
        step_ns=int(launches.duration[rows].sum()),
        kernels=tuple(
            _describe_kernel(activity, launches, group, row, chosen, (starts, begin))
            for group, row in zip(groups, picks, strict=True)
            if row in near
        ),
        skip=before,
        count=_count(chosen, begin, last) + 1,
        far_names=tuple(
            activity.names[int(launches.full[row])] for row in picks if row not in near
        ),
    )


def _list_launches(activity: Activity, database: Database) -> _Launches:
    """Return the compute kernels that ncu sees one by one: not those in graphs traced whole."""
    ops = activity.ops
    rows = np.flatnonzero((ops.kind == COMPUTE) & (ops.name >= 0))
    rows = rows[np.lexsort((ops.start[rows], activity.launch_starts[rows]))]
    return _Launches(
        launch_starts=activity.launch_starts[rows],
        duration=ops.duration[rows],
        short_names=ops.name[rows],
        full=ops.full_name[rows],
        shape=_load_shapes(activity, database, rows),
    )


def _load_shapes(activity: Activity, database: Database, rows: IntArray) -> IntArray:
    """Return grid and block of each operation, six columns; 0 where the report has none."""
    shape = np.zeros((len(rows), len(SHAPE)), np.int64)
    if not len(rows) or not database.has(KERNEL, *SHAPE):
        return shape
    table = database.load(KERNEL, "start", "streamId", "deviceId", "globalPid", *SHAPE, sort=False)
    ours = (table["globalPid"] == activity.process) & (table["deviceId"] == activity.device)
    order = np.flatnonzero(ours)
    order = order[np.lexsort((table["streamId"][order], table["start"][order]))]
    # Both are all kernels of one lane by start; equal starts lie on streams of their own.
    key = table["start"][order] * 65536 + table["streamId"][order] % 65536
    sought = activity.ops.start[rows] * 65536 + activity.ops.stream[rows].astype(np.int64) % 65536
    by_key = np.argsort(key)
    place = np.minimum(np.searchsorted(key[by_key], sought), max(len(order) - 1, 0))
    kernels = order[by_key[place]]
    for column, name in enumerate(SHAPE):
        shape[:, column] = table[name][kernels]
    return shape


def _choose_step(activity: Activity) -> tuple[int, int, int]:
    """Return the number, begin and end of the first steady step; all that was recorded without."""
    steps = find_steps(activity)
    if not len(steps):
        return -1, int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
    step = min(first_steady(steps.end - steps.start), len(steps) - 1)
    ends = [*steps.host_start[1:].tolist(), int(steps.host_end[-1])]
    return step, int(steps.host_start[step]), int(ends[step])


def _find_first_of_steps(activity: Activity, launches: _Launches) -> int:
    """Return the row of the first launch in the first step."""
    begin = find_steps(activity).host_start[0]
    return int(np.searchsorted(launches.launch_starts, begin))


def _group_launches(launches: _Launches, rows: IntArray) -> list[IntArray]:
    """Return the rows of equal launches, the group with most time first."""
    keys = np.column_stack((launches.full[rows], launches.shape[rows]))
    _, code = np.unique(keys, axis=0, return_inverse=True)
    alike = (rows[code.ravel() == number] for number in range(int(code.max()) + 1))
    groups = [part for group in alike for part in _split_by_time(launches, group)]
    return sorted(groups, key=lambda group: -int(launches.duration[group].sum()))


def _split_by_time(launches: _Launches, group: IntArray) -> list[IntArray]:
    order = group[np.argsort(launches.duration[group], kind="stable")]
    times = launches.duration[order].astype(float)
    cuts = np.flatnonzero(times[1:] > _APART * np.maximum(times[:-1], 1.0)) + 1
    return [np.sort(part) for part in np.split(order, cuts)]


def _pick_launches(launches: _Launches, chosen: Flags, groups: Sequence[IntArray]) -> list[int]:
    """Return a typical launch of each group: of the first its first, of others the nearest."""
    picks: list[int] = []
    for group in groups:
        median = float(np.median(launches.duration[group]))
        off = np.abs(launches.duration[group] - median)
        typical = group[off <= max(float(off.min()), 0.1 * median)]
        distance = np.abs(typical - picks[0]) if picks else typical
        picks.append(int(typical[np.argmin(distance)]))
    return picks


def _count(chosen: Flags, first: int, row: int) -> int:
    """Return how many launches of the chosen names lie from `first` to before `row`."""
    if row < first:
        return -_count(chosen, row, first)
    return int(np.count_nonzero(chosen[first:row]))


def _describe_kernel(
    activity: Activity,
    launches: _Launches,
    group: IntArray,
    row: int,
    chosen: Flags,
    begins: tuple[int, int],
) -> Kernel:
    """`begins`: the rows of the step's first launch, and of the first that is measured."""
    shape = tuple(launches.shape[row].tolist())
    return Kernel(
        name=activity.names[int(launches.full[row])],
        short_name=activity.names[int(launches.short_names[row])],
        grid=shape[:3],
        block=shape[3:],
        times=len(group),
        total_ns=int(launches.duration[group].sum()),
        ns=int(launches.duration[row]),
        place=_count(chosen, begins[0], row) + 1,
        offset=_count(chosen, begins[1], row),
    )
