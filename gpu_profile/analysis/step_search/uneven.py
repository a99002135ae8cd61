"""Steps of changing lengths: each ends with its optimizer, however many launches it has.

A sequence is as long as its batch, and a network may have as many passes. Then only some stretches
are alike, and each of those that repeat holds another number of ends.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.anchors import ALIKE
from gpu_profile.analysis.step_search.boundaries import Cycles, Repetition, steps_by_optimizer
from gpu_profile.analysis.step_search.graph_replays import MANY
from gpu_profile.analysis.step_search.launches import Launches, distances

# So many of the repeated stretches hold the same number of ends, or are as many to each end.
MOSTLY = 0.9
# An optimizer's launches are so many times nearer to each other than to those of the next step.
FURTHER = 4


def find_uneven_steps(launches: Launches, steps: Repetition | str) -> Repetition | None:
    """The steps that end with an optimizer; None where what repeats holds one of them, or as many
    in each.
    """
    ends = _find_optimizer_ends(launches)
    if len(ends) < MANY or not (isinstance(steps, str) or are_uneven(steps, ends)):
        return None
    rows = launches.content.between(ends)
    alike = distances(rows, np.median(rows, axis=0)) <= ALIKE
    return steps_by_optimizer(launches, Cycles(ends + 1, alike, int(np.diff(ends).min())))


def are_uneven(steps: Repetition, ends: IntArray) -> bool:
    """Whether some steps hold more ends than others, or few of the ends at all, and some ends come
    after more steps.
    """
    edges = np.r_[steps.first, steps.end]
    held = np.diff(np.searchsorted(ends, edges))
    parts = np.diff(np.searchsorted(edges, ends))
    holds_all = held.sum() >= MOSTLY * len(ends)
    return not (holds_all and _are_equal(held)) and not _are_equal(parts)


def _are_equal(counts: IntArray) -> bool:
    usual = float(np.median(counts)) if len(counts) else 0.0
    return usual >= 1 and float(np.mean(counts == usual)) >= MOSTLY


def _find_optimizer_ends(launches: Launches) -> IntArray:
    """The last launch of each optimizer."""
    place = np.flatnonzero(launches.optimizer)
    if len(place) < MANY:
        return place[:0]
    apart = np.diff(place)
    ordered = np.sort(apart)
    ratio = ordered[1:] / ordered[:-1]
    widest = int(np.argmax(ratio))
    least = ordered[widest + 1] if ratio[widest] >= FURTHER else 0
    return np.asarray(place[np.r_[apart >= least, True]], np.int64)
