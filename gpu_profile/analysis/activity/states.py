"""The time of a rank by state; each moment of its span is in exactly one state.

RankStates is computed from one rank alone, on the run's clock. `split_exposed` needs all ranks: it
splits exposed communication into waiting and transfer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from weakref import ref

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE, Activity
from gpu_profile.analysis.activity.comm.collectives import collectives_of, match_collectives
from gpu_profile.analysis.activity.comm.lanes import Arrivals, Collectives
from gpu_profile.analysis.activity.comm.message_sizes import reduced_bytes
from gpu_profile.analysis.activity.idle.gaps import CAUSES, find_gaps
from gpu_profile.analysis.activity.start_up import StartUp, find_start_up, steady_window
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.packed import PackedIntervals, pack_intervals
from gpu_profile.analysis.arrays.types import IntArray

# Exposed communication runs while no compute kernel does. "unsplit" is the part of collectives
# that have no partner in the given reports.
EXPOSED = ("wait", "transfer", "unsplit")
PIECES = 1 << 10  # of communication that are compared with compute together
STATES = ("compute", *EXPOSED, "memory", *(f"idle_{cause}" for cause in CAUSES))


@dataclass(frozen=True, eq=False)
class RankStates:
    """The time of one rank by state, on the run's clock, in windows: the steady part first
    (steady_window), then each step.

    `times` holds ns by window for the states that need no other rank, and for "busy",
    "communication" and "hidden" (communication under compute), which overlap them. `reduced_bytes`:
    bytes that all-reduces moved, 0 where unknown.
    """

    rank: int
    device: int
    process: int
    start: IntArray
    end: IntArray
    steps: Steps
    times: Mapping[str, IntArray]
    packed_exposed: PackedIntervals
    collectives: Collectives
    reduced_bytes: IntArray
    start_up: StartUp | None = None

    @property
    def exposed(self) -> Intervals:
        """Communication that no compute hides."""
        return self.packed_exposed.open()

    @property
    def span(self) -> int:
        return int(self.end[0] - self.start[0])


@once_each
def rank_states(activity: Activity, offset_ns: int) -> RankStates:
    """The states of one rank by a clock that is `offset_ns` ahead."""
    ops, steps, (first, last) = activity.ops, find_steps(activity), steady_window(activity)
    start, end = np.r_[first, steps.start], np.r_[last, steps.end]
    compute, communication = ops.union(COMPUTE), ops.union(COMMUNICATION)
    times = {
        "compute": compute.within(start, end),
        "communication": communication.within(start, end),
        "busy": ops.measure_covered((), start, end),
    }
    exposed = _pack_exposed(communication, compute).moved(offset_ns)
    del compute  # before the gaps: each takes 16 MB of a million kernels
    kernels = ops.measure_covered((COMPUTE, COMMUNICATION), start, end)
    times["hidden"] = times["compute"] + times["communication"] - kernels
    times["memory"] = times["busy"] - kernels  # copies beside no kernel
    for number, cause in enumerate(CAUSES):
        times[f"idle_{cause}"] = find_gaps(activity).of(number).within(start, end)
    return RankStates(
        rank=activity.rank,
        device=activity.device,
        process=activity.process,
        start=start + offset_ns,
        end=end + offset_ns,
        steps=steps.moved(offset_ns),
        times=times,
        packed_exposed=exposed,
        collectives=collectives_of(activity, offset_ns),
        reduced_bytes=reduced_bytes(activity),
        start_up=find_start_up(activity),
    )


def _pack_exposed(communication: Intervals, compute: Intervals) -> PackedIntervals:
    """The communication that no compute hides: of a million kernels 700,000 pieces."""
    parts = range(0, len(communication.start), PIECES)
    return pack_intervals(communication.pick(slice(n, n + PIECES)).minus(compute) for n in parts)


Spent = Mapping[str, IntArray]


@dataclass(frozen=True, eq=False)
class RankSplit:
    """A rank with its arrivals; `spent[state]` is ns by window for each of STATES."""

    states: RankStates
    arrivals: Arrivals
    spent: Spent

    @property
    def rank(self) -> int:
        return self.states.rank


def split_exposed(ranks: Sequence[RankStates], clock_error_ns: int = 0) -> tuple[RankSplit, ...]:
    """All ranks in rank order, with exposed communication split; the states of a window sum to its
    length.

    The result is cached for the same ranks, because several tables need it, as long as the first
    of them exists.
    """
    ordered = sorted(ranks, key=lambda part: (part.rank, part.device))
    if not ordered:
        return ()
    cache, key = _get_split_cache(ordered[0]), (clock_error_ns, *map(ref, ordered))
    if key not in cache:
        arrivals = match_collectives([part.collectives for part in ordered], clock_error_ns)
        # A different clock error rarely changes the arrivals; then the earlier result is used
        # again.
        alike = (other for same, other in cache.items() if same[1:] == key[1:])
        cache[key] = next((o for o in alike if _is_same_arrivals(arrivals, o)), []) or [
            (matched, _measure_spent(part, matched))
            for part, matched in zip(ordered, arrivals, strict=True)
        ]
    return tuple(RankSplit(part, *values) for part, values in zip(ordered, cache[key], strict=True))


def _is_same_arrivals(
    arrivals: Sequence[Arrivals], entries: Sequence[tuple[Arrivals, Spent]]
) -> bool:
    return all(
        np.array_equal(getattr(arrived, field.name), getattr(other, field.name))
        for arrived, (other, _) in zip(arrivals, entries, strict=True)
        for field in fields(Arrivals)
    )


@once_each
def _get_split_cache(first: RankStates) -> dict[tuple[object, ...], list[tuple[Arrivals, Spent]]]:
    """The split of the ranks that begin with this one. No field: it would be pickled with them."""
    return {}


def _measure_spent(part: RankStates, arrivals: Arrivals) -> Spent:
    """The time of each state, with exposed communication split into wait, transfer and unsplit.

    Where two communicators overlap and one moves data, the time counts as transfer.
    """
    collectives, matched = part.collectives, arrivals.is_matched
    start, end = collectives.start[matched], collectives.end[matched]
    last = np.clip(arrivals.last[matched], start, end)
    moves = Intervals.union(last, end)
    waits = Intervals.union(start, last)
    spent = {name: values for name, values in part.times.items() if name in STATES}
    exposed = part.exposed
    spent["wait"] = exposed.overlap_within(waits.minus(moves), part.start, part.end)
    spent["transfer"] = exposed.overlap_within(moves, part.start, part.end)
    in_all = exposed.within(part.start, part.end)
    spent["unsplit"] = in_all - spent["wait"] - spent["transfer"]
    total = sum(spent[name] for name in STATES)
    assert np.array_equal(total, part.end - part.start), "the states must fill the time"
    return spent
