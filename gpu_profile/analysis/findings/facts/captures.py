"""When a rank captured CUDA graphs: for the rules idle and compile."""

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.graph_captures import INSTANTIATE_NAME
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray


@once_each
def find_captures(activity: Activity) -> Intervals:
    """The time of the host in captures: from the call before each instantiation that launched an
    operation to the next one of its thread. What is captured launches nothing.
    """
    calls = activity.calls
    made = np.flatnonzero(calls.match_names(activity.names, INSTANTIATE_NAME))
    begin, end = list[IntArray](), list[IntArray]()
    for thread in list_distinct(calls.thread[made]):
        launches = np.flatnonzero(activity.asked & (calls.thread == thread))
        behind = np.searchsorted(launches, made[calls.thread[made] == thread])
        behind = behind[(behind > 0) & (behind < len(launches))]
        begin.append(calls.end[launches[behind - 1]])
        end.append(calls.start[launches[behind]])
    none = np.empty(0, np.int64)
    return Intervals.union(np.concatenate([none, *begin]), np.concatenate([none, *end]))
