"""Choose the anchor that divides the launches into steps: the shortest repetition that is whole."""

from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.anchors import (
    FEWEST,
    Anchor,
    comes_regularly,
    find_rows,
    is_inner_loop,
)
from gpu_profile.analysis.step_search.graph_replays import MANY
from gpu_profile.analysis.step_search.launches import NGRAMS, Launches
from gpu_profile.analysis.step_search.loop_bodies import is_loop_body, takes_turns

# 90 % of the steps must hold an optimizer launch, a copy or a graph, if any does.
NEARLY_ALL = 0.9
# What is outside the layers (embedding, head, sampling) takes more than 1 % of the GPU time; a
# step that writes a log takes less in addition.
LITTLE_TIME = 0.01
# Half of the stretches of 8 launches, or as many as a step has, must repeat in the next step; in
# random order hardly any do.
ORDER, SAME_ORDER, LOOKS = 8, 0.5, 9
# Unlike stretches are logs if half of them copy to the host. They belong to a longer step only if
# they come every n-th time.
HALF = 0.5
# Below 5 % of the stretches, unlike ones are exceptions.
FEW = 0.05
# Launches that span less than 40 % of the sample are of a phase, such as a warm-up before graphs.
LEAST_SPAN = 0.4
# Anchors whose share of alike stretches differs by less than 2 % are as good as each other.
CLEAR = 1.02


def choose_anchor(launches: Launches, anchors: list[Anchor], begin: int) -> Anchor | None:
    """The best anchor of the shortest repetition that is a whole step."""
    optimizer = spread_over(launches.optimizer, begin)
    best_alike = None
    for _, same in groupby(anchors, key=lambda anchor: anchor.count):
        best = max(
            same,
            key=lambda choice: (round(choice.cover, 2), choice.is_alike.mean(), -choice.length),
        )
        if optimizer is not None:
            is_complete = _all_hold(best, optimizer)
        else:
            is_complete = _is_whole(launches, best, begin)
            if _is_better(best, best_alike) and _in_order(launches, best):
                best_alike = best
        if is_complete and (_in_order(launches, best) or _is_even(best)):
            return best
    return best_alike


def _is_better(anchor: Anchor, other: Anchor | None) -> bool:
    """Whether clearly more of the anchor's stretches are alike than of the other's.

    The most frequent anchors come first. One of fewer and longer stretches must be clearly better,
    because two steps joined repeat as evenly as one.
    """
    if other is None:
        return True
    return bool(anchor.cover * anchor.is_alike.mean() > CLEAR * other.cover * other.is_alike.mean())


def _in_order(launches: Launches, anchor: Anchor) -> bool:
    """Whether alike stretches also hold the same launches in a row, not only the same counts."""
    usual = np.median(np.diff(anchor.place)[anchor.is_alike])
    code = launches.ngrams[max(length for length in NGRAMS if length <= np.clip(usual, 1, ORDER))]
    rows = np.flatnonzero(anchor.is_alike[:-1] & anchor.is_alike[1:])[-LOOKS:]
    edges = [anchor.place[row : row + 3] for row in rows]
    same = [float(np.isin(code[a:b], code[b:c]).mean()) for a, b, c in edges]
    return bool(same) and float(np.median(same)) >= SAME_ORDER


def _is_even(anchor: Anchor) -> bool:
    """Whether all stretches, and not only a few, hold one number of launches.

    The length of a batch chooses kernels, for example by whether it is odd, and does not change
    their number. Parts of a step differ in number: one of them holds what is outside the layers.
    """
    return anchor.count > MANY and bool(np.ptp(np.diff(anchor.place)) == 0)


def spread_over(flags: NDArray[np.bool_], begin: int) -> IntArray | None:
    """The rows of the flagged launches, or None if they span too little of the sample."""
    place = np.flatnonzero(flags)
    place = place[place >= begin]
    if len(place) < FEWEST or np.ptp(place) < LEAST_SPAN * (len(flags) - begin):
        return None
    return place


def _all_hold(anchor: Anchor, place: IntArray) -> bool:
    edges = np.searchsorted(place, anchor.place)
    return bool(np.mean(np.diff(edges) > 0) >= NEARLY_ALL)


def _is_whole(launches: Launches, anchor: Anchor, begin: int) -> bool:
    """Whether the stretches are whole steps, for programs without optimizer launches.

    They are if each stretch holds a copy or a graph, if all are even, or if the unlike stretches
    are a log or an evaluation, not a part of a longer step.
    """
    if takes_turns(anchor) or is_inner_loop(anchor, launches.gpu) or is_loop_body(launches, anchor):
        return False
    boundaries = np.flatnonzero(launches.to_device | launches.to_host | launches.graph)
    if _all_hold(anchor, boundaries):
        return True
    if spread_over(launches.to_device, begin) is not None:
        return False
    if _is_even(anchor):
        return True
    others = np.flatnonzero(~anchor.is_alike)
    is_regular = comes_regularly(find_rows(~anchor.is_alike))
    if len(others) < FEW * len(anchor.is_alike) and not is_regular:
        return True
    other = anchor.place[:-1][~anchor.is_alike]
    after = anchor.place[1:][~anchor.is_alike]
    fetched = np.diff(np.searchsorted(np.flatnonzero(launches.to_host), np.c_[other, after]))
    if np.mean(fetched > 0) < HALF:
        return False
    time = np.add.reduceat(launches.gpu, anchor.place)[:-1].astype(np.float64)
    usual = float(np.median(time[anchor.is_alike]))
    more = float(np.maximum(time[~anchor.is_alike] - usual, 0).sum())
    return more < LITTLE_TIME * float(time.sum())
