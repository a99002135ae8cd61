"""Steps that begin with a marked forward pass, where what repeats most is a loop after each pass,
such as one over the masks of an image.
"""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL, RepeatedSteps
from gpu_profile.analysis.activity.steps.step_ranges import FEWEST_STEPS
from gpu_profile.analysis.store.schema import MARKS_DOMAIN

MARKED_PASS = f"{MARKS_DOMAIN}:forward"
LEAST_TURNS = 6
"""After a forward pass, of a loop. Several models that are called in a step have none between."""
LONGER = 2
"""More turns than that times the usual number before the first pass, or after the last one, are no
part of its step: what is not marked, such as a compiled model, makes them."""


def join_turns(activity: Activity, series: RepeatedSteps) -> RepeatedSteps:
    """The steps from one forward pass to the next, if `series` are turns of a loop between them.

    CUDA graphs run without marks: a prompt has a forward pass then, and its words have none.
    """
    passes = activity.ranges.called(MARKED_PASS).start
    turn = np.searchsorted(series.start, passes)
    is_first = np.diff(turn, append=len(series.start)) >= LEAST_TURNS
    begin, turn = passes[is_first], turn[is_first]
    counts = np.diff(turn, prepend=0, append=len(series.start))
    if len(begin) < FEWEST_STEPS or counts[[0, -1]].max() > LONGER * np.median(counts[1:-1]):
        return series
    calls = activity.calls
    graphs = np.flatnonzero(calls.match_names(activity.names, GRAPH_CALL))
    if np.any(calls.start[graphs] > begin[0]):
        return series
    end = np.r_[begin[1:] - 1, series.end[-1:]]
    source = f"range {MARKED_PASS} and a loop after it"
    return replace(series, source=source, start=begin, end=end, pauses=series.pauses[:0])
