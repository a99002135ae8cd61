"""Blocking calls of one rank by name: for the rules synchronization and pageable_copy."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.idle.blocking_calls import blocking_calls
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import list_host_windows
from gpu_profile.analysis.host.blocking_names import name_blocking_calls


@dataclass(frozen=True, eq=False)
class BlockingTime:
    """The blocking calls of one name, by window: their number, and ns that they held the host."""

    count: IntArray
    held_ns: IntArray
    copies: bool
    """Whether they are copies: the rest are calls that synchronise."""


@once_each
def sum_blocking_calls(activity: Activity) -> Mapping[str, BlockingTime]:
    """The blocking calls by the names of name_blocking_calls(), computed once for both rules.

    A call counts in the step whose work the host was issuing, whatever the GPU did then.
    """
    blocking = blocking_calls(activity)
    name, names = name_blocking_calls(activity)
    windows = list_host_windows(activity)
    times = {}
    for code in list_distinct(name):
        chosen = name == code
        start, held = blocking.start[chosen], (blocking.end - blocking.start)[chosen]
        times[names[code]] = BlockingTime(
            count=windows.count(start),
            held_ns=windows.sum(start, held),
            copies=bool(blocking.copies[chosen].any()),
        )
    return times
