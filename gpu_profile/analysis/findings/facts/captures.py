"""When a rank captured CUDA graphs: for the rules idle and compile."""

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.graph_captures import INSTANTIATE_NAME, find_capture_calls
from gpu_profile.analysis.arrays.columns import order_codes
from gpu_profile.analysis.arrays.intervals import NOTHING, Intervals
from gpu_profile.analysis.arrays.memo import once_each


@once_each
def find_captures(activity: Activity) -> Intervals:
    """The time of the host in captures: from the end of the launch before each to the start of its
    last call, which launches; those without a launch on both sides are left out.
    """
    calls = activity.calls
    if not np.any(calls.match_names(activity.names, INSTANTIATE_NAME)):
        return NOTHING  # as mostly: the order of the calls takes 48 MB of a million kernels
    order = order_codes(calls.thread, len(calls.threads))
    thread, launches = calls.thread[order], activity.launches_op[order]
    instantiates = calls.match_names(activity.names, INSTANTIATE_NAME)[order]
    first, last = find_capture_calls(thread, launches, instantiates)
    is_inside = launches[last] & (first > 0) & (thread[first - 1] == thread[first])
    before, after = order[first[is_inside] - 1], order[last[is_inside]]
    return Intervals.union(calls.end[before], calls.start[after])
