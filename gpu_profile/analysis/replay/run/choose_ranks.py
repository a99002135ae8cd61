"""Which ranks of a large run are replayed: those that the others wait for, and typical ones.

A replay of 64 ranks takes 16 times as long as one of four. All ranks are looked at for who is
late; a rank that is left out stays in the graph by its arrivals: where it comes last, that wait
stays as recorded.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpu_profile.analysis.activity.comm.match_calls import pair_messages
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.run.matched_ranks import MatchedRank

LEAST_RANKS = 4  # two late ones (LATE_PART) and two others
LATE_PART = 2
"""One in so many of the replayed ranks is there because it is late."""


def choose_ranks(splits: Sequence[MatchedRank], most: int, clock_error_ns: int = 0) -> list[int]:
    """The places in `splits` of at most `most` ranks, in order.

    Half of them are those that wait least for others, so the latest ones and those that come next,
    half are spread evenly over the rest. Ranks that often meet, as of one pipeline or one tensor
    group, are taken together, up to half of `most`.
    """
    if len(splits) <= most:
        return list(range(len(splits)))
    groups = _join_partners(splits, max(1, most // LATE_PART), clock_error_ns)
    waits = [_sum_waits(split) for split in splits]
    groups.sort(key=lambda group: min(waits[rank] for rank in group))
    chosen = list[int]()
    for group in _order_groups(groups, most):
        if len(chosen) + len(group) <= most:
            chosen += group
    return sorted(chosen)


def _order_groups(groups: Sequence[list[int]], most: int) -> Iterator[list[int]]:
    """The latest groups, then others that are spread over the rest, then all others."""
    size = sum(map(len, groups)) / len(groups)
    late = max(1, round(most / LATE_PART / size))
    yield from groups[:late]
    others = sorted(groups[late:])
    spread = np.linspace(0, len(others) - 1, max(1, round(most / size) - late)).astype(np.int64)
    places = dict.fromkeys((*spread.tolist(), *range(len(others)))) if others else ()
    yield from (others[place] for place in places)


def _sum_waits(split: MatchedRank) -> int:
    """How long the rank waits for the last one in all collectives (ns)."""
    matched = split.arrivals.is_matched
    start = split.states.collectives.start[matched]
    return int(np.maximum(split.arrivals.last[matched] - start, 0).sum())


def _join_partners(
    splits: Sequence[MatchedRank], most: int, clock_error_ns: int
) -> list[list[int]]:
    """All ranks in groups of at most `most`: those that meet most often first."""
    group_of = [[rank] for rank in range(len(splits))]
    for members in _list_partners(splits, clock_error_ns):
        joined = sorted({rank for member in members for rank in group_of[member]})
        if len(joined) <= most:
            for rank in joined:
                group_of[rank] = joined
    return [group for rank, group in enumerate(group_of) if group[0] == rank]


def _list_partners(splits: Sequence[MatchedRank], clock_error_ns: int) -> list[list[int]]:
    """Ranks that send each other messages, then members of a communicator; by number of meetings.

    Of a collective the last arrival is known where members are left out, of a message it is not.
    """
    messages = dict[tuple[int, ...], int]()
    for pair in pair_messages([split.states.collectives for split in splits], clock_error_ns):
        ranks = tuple(sorted((pair.sender, pair.receiver)))
        messages[ranks] = messages.get(ranks, 0) + len(pair.sends)
    collectives = dict[tuple[int, ...], int]()
    counts = [_count_groups(split.arrivals.group[split.arrivals.is_matched]) for split in splits]
    for group in sorted(set().union(*counts)):
        members = tuple(rank for rank, count in enumerate(counts) if group in count)
        most = max(count.get(group, 0) for count in counts)
        collectives[members] = collectives.get(members, 0) + most
    return [*_sort_by_count(messages), *_sort_by_count(collectives)]


def _sort_by_count(meetings: Mapping[tuple[int, ...], int]) -> list[list[int]]:
    return [list(ranks) for ranks in sorted(meetings, key=lambda ranks: (-meetings[ranks], ranks))]


def _count_groups(group: IntArray) -> dict[int, int]:
    numbers, counts = np.unique(group, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))
