"""Find where a step begins: after the optimizer, at the batch's copy, or where the host pauses."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.anchors import Anchor
from gpu_profile.analysis.step_search.evaluations import (
    SHORT,
    find_pauses,
    include_evaluations,
    leave_out_evaluations,
    split_at_openings,
)
from gpu_profile.analysis.step_search.launches import Launches, distances
from gpu_profile.analysis.step_search.tails import are_mostly, count_tail, find_group

# How many first launches identify a step's beginning, where other launches precede it.
OPENINGS = (8, 4, 2)
# A stretch this far from the typical one (e.g. twice as many launches) counts as a step only
# between others. A first step that autotunes or allocates the optimizer's state is nearer.
FAR = 1.0


@dataclass(frozen=True, eq=False)
class Repetition:
    """The steps that were found.

    `first`: the row of each step's first launch. `end`: one after the last launch of the last step.
    `alike_part`: the part of the steps with the typical content. `size`: launches of a typical
    step. `pauses`: the rows at which evaluations between steps begin. `by_copies`: see tokens.py.
    """

    first: IntArray
    end: int
    alike_part: float
    size: int
    pauses: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    by_copies: bool = False

    def place_at(self, rows: IntArray) -> "Repetition":
        """The same steps among all launches, of which they were found in these rows."""
        first, end = rows[self.first], int(rows[self.end - 1]) + 1
        return replace(self, first=first, end=end, pauses=rows[self.pauses])


@dataclass(frozen=True, eq=False)
class Cycles:
    """The occurrences of an anchor in all launches, from the first repetition to the last.

    `is_alike` is for the stretch after each occurrence but the last; `size` is their usual length
    in launches.
    """

    place: IntArray
    is_alike: Flags
    size: int


def find_cycles(launches: Launches, anchor: Anchor) -> Cycles:
    """Extend the anchor's occurrences beyond the sample while the stretches resemble a step."""
    place = np.flatnonzero(launches.ngrams[anchor.length] == anchor.code)
    far = distances(launches.content.between(place), anchor.typical)
    size = np.diff(place)
    usual = int(np.median(np.diff(anchor.place)[anchor.is_alike]))
    near = np.flatnonzero(far <= anchor.tolerance)
    possible = (far <= FAR) & (size >= SHORT * usual)
    low, high = int(near[0]), int(near[-1])
    while low > 0 and possible[low - 1]:
        low -= 1
    while high + 1 < len(possible) and possible[high + 1]:
        high += 1
    return Cycles(place[low : high + 2], far[low : high + 1] <= anchor.tolerance, usual)


def steps_by_optimizer(launches: Launches, cycles: Cycles) -> Repetition:
    """The steps, each of which ends with the last optimizer launch before the longest stretch
    without one.
    """
    last = _optimizer_ends(launches, cycles)
    size = int(np.median(np.diff(last))) if len(last) > 1 else cycles.size
    offset = 1 + count_tail(launches, last, size)
    target = last + offset - size
    first = _openings(launches, last[:-1] + offset, target, np.r_[-1, last[:-1]], last)
    has_launch = first >= 0
    # For steps whose opening is not found, for example with a log at their beginning.
    default = np.r_[-1, last[:-1] + offset]
    first = np.where(has_launch, first, default)
    if first[0] < 0:
        first, default = first[1:], default[1:]  # a window cuts the first step
    else:
        first = include_evaluations(launches, first, np.maximum(default, 0), size)
    pauses = find_pauses(launches, first, default, size)
    return Repetition(first, int(last[-1]) + 1, float(cycles.is_alike.mean()), size, pauses)


def _optimizer_ends(launches: Launches, cycles: Cycles) -> IntArray:
    """The last optimizer launch of each step."""
    place = np.flatnonzero(launches.optimizer)
    free: IntArray = np.diff(place, append=len(launches) + cycles.size)
    before = max(0, int(cycles.place[0]) - cycles.size)
    bounds: IntArray = np.r_[before, cycles.place, len(launches)]
    edges = np.searchsorted(place, bounds)
    rows = [int(place[a + int(np.argmax(free[a:b]))]) for a, b in pairwise(edges.tolist()) if b > a]
    ends = np.array(rows, np.int64)
    # An anchor inside the optimizer's launches would divide those of the first step.
    apart = np.diff(ends) >= SHORT * cycles.size
    return ends[np.r_[apart, True]] if len(ends) else ends


def steps_by_pause(launches: Launches, cycles: Cycles) -> Repetition:
    """The steps by copies or pauses, for programs without optimizer launches.

    Each step begins at its first copy to the device, else after its last copy to the host, else
    where the host pauses longest.
    """
    sizes = np.diff(cycles.place)
    usual = int(np.median(sizes[cycles.is_alike]))
    rows = cycles.place[:-1][cycles.is_alike & (sizes == usual)]
    offset = _phase(launches, rows, usual, cycles) if len(rows) else 0
    target = np.r_[cycles.place[0] - usual, cycles.place] + offset
    target = target[target < len(launches)]
    low, high = np.r_[-1, target[:-1]], np.r_[target[1:], len(launches)]
    first = _openings(launches, rows + offset, target, low, high)
    first[1:] = np.where(first[1:] >= 0, first[1:], target[1:])
    first = np.unique(first[(first >= 0) & (first < len(launches))])
    first = split_at_openings(launches, rows + offset, first, usual)
    end = min(len(launches), int(first[-1]) + usual)
    if end - first[-1] < SHORT * usual:
        first, end = first[:-1], int(first[-1])
    first = leave_out_evaluations(launches, first, end, usual)
    return Repetition(first, end, float(cycles.is_alike.mean()), usual)


def _phase(launches: Launches, rows: IntArray, size: int, cycles: Cycles) -> int:
    """The offset of a step's first launch from the anchor."""
    window = rows[:, None] + np.arange(size)
    sent = find_group(are_mostly(launches.to_device[window]), may_be_row=True)
    if sent is not None:
        return sent[0]
    fetched = find_group(are_mostly(launches.to_host[window]))
    if fetched is not None:
        return (fetched[1] + 1) % size
    pause = np.median(launches.pause[window], axis=0)
    begin, end = _edges(launches, int(rows[len(rows) // 2]), size, cycles)
    # If the repetition begins and ends at the same offset, the recording holds whole steps of a
    # loop. A recording window cuts its first and last step at different offsets.
    return end if begin == end else int(np.argmax(pause))


def _edges(launches: Launches, row: int, size: int, cycles: Cycles) -> tuple[int, int]:
    """The offsets (from the anchor) at which the repetition begins and ends."""
    token, model = launches.token, launches.token[row : row + size]
    first, last = int(cycles.place[0]), int(cycles.place[-1])
    before = token[max(0, first - size) : first][::-1]
    same = before == model[::-1][: len(before)]
    back = len(same) if same.all() else int(np.argmin(same))
    after = token[last : last + size]
    same = after == model[: len(after)]
    on = len(same) if same.all() else int(np.argmin(same))
    return (size - back) % size, on % size


def _openings(
    launches: Launches, is_opening: IntArray, target: IntArray, low: IntArray, high: IntArray
) -> IntArray:
    """For each step the row in [low + 1, high) nearest to `target` where its opening occurs, or
    -1.

    The opening is the sequence of launches with which most steps in `is_opening` begin.
    """
    openings = np.full(len(target), -1)
    for length in OPENINGS:
        code = launches.ngrams[length]
        values, counts = np.unique(code[is_opening[is_opening < len(code)]], return_counts=True)
        if not len(values):
            break
        places = np.flatnonzero(code == values[np.argmax(counts)])
        rows = np.flatnonzero(openings < 0)
        openings[rows] = _find_nearest_inside(places, target[rows], low[rows], high[rows])
    return openings


def _find_nearest_inside(
    places: IntArray, target: IntArray, low: IntArray, high: IntArray
) -> IntArray:
    """For each target the nearest of the sorted places in [low + 1, high), or -1."""
    edges = np.searchsorted(places, (low + 1, high))
    place = np.clip(np.searchsorted(places, target), edges[0], np.maximum(edges[1] - 1, edges[0]))
    before = np.maximum(place - 1, edges[0])
    padded = np.r_[places, -1]
    is_nearer = np.abs(padded[before] - target) <= np.abs(padded[place] - target)
    nearest = padded[np.where(is_nearer, before, place)]
    return np.where(edges[1] > edges[0], nearest, -1)
