"""Find a rank's training steps: by an NVTX range that says so, else by the kernels' period."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges, normal_name
from gpu_profile.analysis.arrays.columns import present
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray

STEP_NAME = re.compile(r"(^|[^a-z])(profiler|train(ing)?)?_?(step|iter|iteration|batch)([^a-z]|$)")
NOT_A_STEP = re.compile(r"optim|sched|zero_grad|forward|backward|data|load|adam|sgd")
# Fewer repetitions say nothing of a spread.
FEWEST_STEPS = 3
# A repeated outermost range without a telling name must fill the capture to be the step.
NAMELESS_COVER = 0.5
PERIOD_MATCH = 0.9
PERIOD_NAMES, PERIOD_LAGS, PERIOD_SAMPLE = 5, 64, 200_000


Host = tuple[str, IntArray, IntArray]
"""How the steps were found, and when the host began and ended each."""
Groups = dict[str, IntArray]
"""Rows of ranges by their name."""


@dataclass(frozen=True, eq=False)
class Steps:
    """`host_*`: when the host issued each step. `start`, `end`: when the GPU worked on it.

    A step lasts on the GPU from its first operation to the first one of the next step, so the
    steps' times add up and an idle gap belongs to the step before it. `source` says how they
    were found: "range NAME", "period of NAME", or "" for none (and then there are no steps).
    """

    source: str
    host_start: IntArray
    host_end: IntArray
    start: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.start)


NO_STEPS = Steps("", *(np.empty(0, np.int64) for _ in range(4)))


@once_each
def find_steps(activity: Activity) -> Steps:
    """The steps of one rank, in time order."""
    found = named_steps(activity.ranges) or _period(activity)
    return _on_gpu(activity, *found) if found else NO_STEPS


def host_steps(ranges: Ranges) -> Steps:
    """The steps of a process without GPU work, as long as the host was at them."""
    named = named_steps(ranges)
    return Steps(*named, *named[1:]) if named else NO_STEPS


def named_steps(ranges: Ranges) -> Host | None:
    """The outermost repeated range called step, iteration or batch; else what fills the time.

    Of another domain than the default, which may be a library's, only one that is called so.
    """
    domains = (ranges.of_domain(domain) for domain in present(ranges.domain) if domain)
    elsewhere = (_first(domain, _telling) for domain in domains)
    return _first(ranges.of_user(), _candidates) or next(filter(None, elsewhere), None)


def _first(ranges: Ranges, candidates: Callable[[Ranges, Groups], Iterable[str]]) -> Host | None:
    """The first candidate whose ranges follow each other."""
    repeated = {name: rows for name, rows in _by_name(ranges) if len(rows) >= FEWEST_STEPS}
    for name in candidates(ranges, repeated):
        rows = repeated[name]
        start, end = ranges.start[rows], ranges.end[rows]
        if np.all(end[:-1] <= start[1:]) and end[-1] != FOREVER:
            return f"range {name}", start, end
    return None


def _by_name(ranges: Ranges) -> Iterator[tuple[str, IntArray]]:
    """The ranges of each name, numbers in it aside; names in the order in which they first come."""
    normal = [normal_name(name) for name in ranges.names]
    names = list(dict.fromkeys(normal))
    code = np.array([names.index(name) for name in normal], np.int64)[ranges.name]
    for number in range(len(names)):
        if len(rows := np.flatnonzero(code == number)):
            yield names[number], rows


def _telling(ranges: Ranges, repeated: Groups) -> list[str]:
    return _longest_first(ranges, repeated, [name for name in repeated if _tells(name.lower())])


def _candidates(ranges: Ranges, repeated: Groups) -> Iterator[str]:
    yield from _telling(ranges, repeated)
    outermost = _outermost(ranges)
    for name, rows in repeated.items():
        if _fills(ranges, rows.tolist(), outermost):
            yield name


def _tells(name: str) -> bool:
    return bool(STEP_NAME.search(name)) and not NOT_A_STEP.search(name)


def _longest_first(ranges: Ranges, groups: Groups, names: list[str]) -> list[str]:
    def length(name: str) -> int:
        rows = groups[name]
        return int((ranges.end[rows] - ranges.start[rows]).sum())

    return sorted(names, key=lambda name: (-length(name), name))


def _outermost(ranges: Ranges) -> set[int]:
    found, reach = set(), dict[int, int]()
    for index, (start, end, thread) in enumerate(
        zip(ranges.start.tolist(), ranges.end.tolist(), ranges.thread.tolist(), strict=True)
    ):
        if start >= reach.get(thread, start):
            found.add(index)
            reach[thread] = end
    return found


def _fills(ranges: Ranges, rows: list[int], outermost: set[int]) -> bool:
    if not outermost.issuperset(rows):
        return False
    start, end = ranges.start[rows], ranges.end[rows]
    return bool((end - start).sum() >= NAMELESS_COVER * (end[-1] - start[0]))


def _period(activity: Activity) -> Host | None:
    """The distance after which the launched kernels' names repeat."""
    ops = activity.ops
    rows = np.flatnonzero(ops.kind == COMPUTE)
    rows = rows[np.argsort(activity.launched[rows], kind="stable")]
    period = _repetition(ops.name[rows][:PERIOD_SAMPLE])
    if not period:
        return None
    edges = _step_edges(activity.launched[rows], period)
    found = len(edges) > FEWEST_STEPS
    return (f"period of {period} kernels", edges[:-1], edges[1:]) if found else None


def _repetition(codes: IntArray) -> int:
    """The shortest distance at which the sequence equals itself about as well as at any; or 0.

    A network's layers repeat within a step, but less exactly than whole steps do.
    """
    names, counts = np.unique(codes, return_counts=True)
    enough = np.flatnonzero(counts >= FEWEST_STEPS)
    rarest = enough[np.argsort(counts[enough], kind="stable")][:PERIOD_NAMES]
    distances = set[int]()
    for name in names[rarest]:
        places = np.flatnonzero(codes == name)
        distances.update((places[1 : PERIOD_LAGS + 1] - places[0]).tolist())
    match = {
        distance: float(np.mean(codes[distance:] == codes[:-distance]))
        for distance in sorted(distances)
        if distance * FEWEST_STEPS <= len(codes)
    }
    best = max(match.values(), default=0.0)
    close = [distance for distance, share in match.items() if share >= 0.98 * best]
    return close[0] if best >= PERIOD_MATCH else 0


def _step_edges(launched: IntArray, period: int) -> IntArray:
    """Launch times that part the periods, put where the host pauses longest: between steps."""
    pause = np.r_[0, np.diff(launched)]
    whole = np.arange(0, len(launched) - period + 1, period)
    typical = np.median(pause[whole[:, None] + np.arange(period)], axis=0)
    edges = whole + int(np.argmax(typical))
    return launched[edges[edges < len(launched)]]


def _on_gpu(activity: Activity, source: str, host_start: IntArray, host_end: IntArray) -> Steps:
    """Steps without any GPU work (a capture that ends early) are dropped."""
    ops = activity.ops
    step = step_of(activity.launched, host_start, host_end)
    # Ops are sorted by start: of a step's, written last to first, the earliest stays.
    first = np.full(len(host_start) + 1, -1)  # -1, no step, writes the one behind the last
    first[step[::-1]] = np.arange(len(step))[::-1]
    kept = np.flatnonzero(first[:-1] >= 0)
    if not len(kept):
        return NO_STEPS
    start = np.maximum.accumulate(ops.start[first[kept]])
    last_end = max(int(ops.end[step == kept[-1]].max()), int(start[-1]))
    return Steps(source, host_start[kept], host_end[kept], start, np.r_[start[1:], last_end])


def step_of(time: IntArray, start: IntArray, end: IntArray) -> IntArray:
    """The step that each host time falls into (a pause after a step counts to it), or -1."""
    place = np.searchsorted(start, time, side="right") - 1
    return np.where((place >= 0) & (time <= end[-1]), place, -1) if len(start) else place


def first_steady(duration: IntArray) -> int:
    """How many leading steps to drop, given each step's time (of the slowest rank).

    The first step of a capture starts the profiler's buffers and finds caches cold: it goes
    whenever enough are left. So do further leading ones while they last 1.5 times the typical
    step, up to a quarter of them: a run that never settles must not vanish.
    """
    if len(duration) <= FEWEST_STEPS:
        return 0
    typical = float(np.median(duration[1:]))
    drop = 1
    while drop < len(duration) // 4 and duration[drop] > 1.5 * typical:
        drop += 1
    return drop


def warm_up(ranks: Sequence[Steps]) -> int:
    """How many leading steps to leave out on every rank: judged by the slowest rank of each."""
    return first_steady(slowest(ranks))


def slowest(ranks: Sequence[Steps]) -> IntArray:
    """The slowest rank's time (ns) of each step that all ranks (with steps) have."""
    times = [steps.end - steps.start for steps in ranks if len(steps)]
    common = min((len(time) for time in times), default=0)
    return np.max([time[:common] for time in times], axis=0) if common else np.empty(0, np.int64)
