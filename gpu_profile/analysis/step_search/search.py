"""Find the steps of one rank in its launches.

The limits were set on the recorded programs of tests/data/unprepared and on synthetic runs, whose
true steps are known. A change of one is judged by `python -m tests.generator --runs 500`, which
prints the runs with wrong steps (0 of 150 from seed 51000000).
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.anchors import (
    FEWEST,
    SAMPLE,
    Anchor,
    comes_regularly,
    find_anchors,
    is_inner_loop,
    sample_start,
)
from gpu_profile.analysis.step_search.boundaries import (
    Cycles,
    Repetition,
    find_cycles,
    steps_by_optimizer,
    steps_by_pause,
)
from gpu_profile.analysis.step_search.bursts import find_steps_between
from gpu_profile.analysis.step_search.graph_replays import (
    MANY,
    find_last_replays,
    include_first_replays,
)
from gpu_profile.analysis.step_search.launches import Launches
from gpu_profile.analysis.step_search.loop_bodies import is_loop_body, takes_turns

# 90 % of the steps must hold an optimizer launch, a copy or a graph, if any does.
NEARLY_ALL = 0.9
# What is outside the layers (embedding, head, sampling) takes more than 1 % of the GPU time; a
# step that writes a log takes less in addition.
LITTLE_TIME = 0.01
# Half of the stretches of 8 launches must repeat in the next step; in random order hardly any do.
ORDER, SAME_ORDER, LOOKS = 8, 0.5, 9
# Unlike stretches are logs if half of them copy to the host. They belong to a longer step only if
# they come every n-th time.
HALF = 0.5
# Below 5 % of the stretches, unlike ones are exceptions.
FEW = 0.05
# An autotuner can launch more than all steps do: then only the last launches repeat.
# The batches of an evaluation after a training in no order do less than a quarter of the work.
LATE_SAMPLES, LEAST_WORK = (0.7, 0.85, 0.925), 1 / 4
# Launches that span less than 40 % of the sample are of a phase, such as a warm-up before graphs.
LEAST_SPAN = 0.4
# Anchors whose share of alike stretches differs by less than 2 % are as good as each other.
CLEAR = 1.02
# As of a gap whose cause is the host's stall (docs/steps.md): a longer pause than 20 launches.
LONG_PAUSE = 20


def find_repetition(launches: Launches) -> Repetition | str:
    """The steps, or a text that says why there are none."""
    if len(launches) < FEWEST:
        return f"{len(launches)} operations were launched"
    usual = _search_late(launches)
    if isinstance(usual, str):
        return (
            _replays(launches, 0)
            or _replays(launches, find_last_replays(launches))
            or _find_rarer_steps(launches)
            or usual
        )
    return (
        _replays(launches, usual.end) or find_steps_between(launches, usual, _search_late) or usual
    )


def _search_late(launches: Launches) -> Repetition | str:
    return _search(launches, sample_start(launches))


def _search(launches: Launches, begin: int) -> Repetition | str:
    """The steps by the anchors in the launches from row `begin` on, or why there are none."""
    anchors = find_anchors(launches, begin)
    if not anchors:
        return f"no {FEWEST} stretches of the {len(launches)} launches are alike"
    chosen = _choose(launches, anchors, begin)
    if chosen is None:
        return "stretches of launches hold the same kernels, but in no order, or no whole step"
    cycles = find_cycles(launches, chosen)
    by_optimizer = _spread_over(launches.optimizer, begin) is not None
    if not by_optimizer and (missing := _missing(launches, cycles)):
        return f"the launches repeat {len(cycles.alike)} times, but {missing} came between"
    steps = (steps_by_optimizer if by_optimizer else steps_by_pause)(launches, cycles)
    if len(steps.first) < FEWEST:
        return f"the launches repeat {len(steps.first)} times, and fewer than {FEWEST} tell nothing"
    return steps


def _replays(launches: Launches, end: int) -> Repetition | None:
    """The steps after row `end` that replay CUDA graphs, if they are half of the GPU's work, or
    the last launches of a program without an optimizer's.

    A graph can hold the optimizer, whose kernels are then launched in the warm-up only (and in the
    capture, where they do not run). So what repeats before is the warm-up. XLA's autotuner launches
    each product some hundred times, which can be more work than all steps are.
    """
    optimizer = np.flatnonzero(launches.optimizer)
    row = max(end, int(optimizer[-1]) + 1 if len(optimizer) else 0)
    is_most = 2 * int(launches.gpu[row:].sum()) >= int(launches.gpu.sum())
    if not is_most and len(optimizer):
        return None
    later = launches.behind(row)
    steps = _search(later, sample_start(later)) if later.graph.sum() >= MANY else ""
    if isinstance(steps, str) or len(steps.first) < MANY:
        return None
    edges = np.r_[steps.first, steps.end]
    graphs = np.diff(np.searchsorted(np.flatnonzero(later.graph), edges))
    if np.mean(graphs > 0) < NEARLY_ALL:
        return None
    if not is_most and steps.end - int(steps.first[0]) < NEARLY_ALL * len(later):
        return None
    steps = replace(steps, first=steps.first + row, end=steps.end + row, pauses=steps.pauses + row)
    has_one_graph = np.mean(graphs == 1) >= NEARLY_ALL
    return include_first_replays(launches, steps) if has_one_graph else steps


def _find_late_steps(launches: Launches) -> Repetition | None:
    """The steps that only the last launches repeat: those before are of an autotuner."""
    for part in LATE_SAMPLES:
        steps = _search(launches, int(part * len(launches)))
        if isinstance(steps, str) or len(steps.first) < MANY:
            continue
        inside = slice(int(steps.first[0]), steps.end)
        if launches.optimizer.any():
            if 2 * int(launches.optimizer[inside].sum()) > int(launches.optimizer.sum()):
                return steps
        elif int(launches.gpu[inside].sum()) >= LEAST_WORK * int(launches.gpu.sum()):
            return steps
    return None


def _find_few_steps(launches: Launches) -> Repetition | None:
    """The steps that all launches together repeat, where the sample holds too few of them.

    The sample of a window of four steps holds two, and a micro-batch repeats in it. Steps do half
    of the GPU's work, else they are of a start-up.
    """
    if len(launches) > SAMPLE:
        return None
    steps = _search(launches, 0)
    if isinstance(steps, str):
        return None
    work = launches.gpu[int(steps.first[0]) : steps.end].sum()
    return steps if 2 * int(work) >= int(launches.gpu.sum()) else None


def _find_rarer_steps(launches: Launches) -> Repetition | None:
    """The steps of a program whose usual sample has none."""
    return (
        _find_late_steps(launches)
        or _find_few_steps(launches)
        or _find_steps_of_one_kernel(launches)
    )


def _find_steps_of_one_kernel(launches: Launches) -> Repetition | None:
    """The steps of a program that launches one kernel again and again: each begins after a pause
    of the host that is as long as LONG_PAUSE others.
    """
    begin = sample_start(launches)
    share = np.bincount(launches.token[begin:]).max() / (len(launches) - begin)
    if share < NEARLY_ALL or launches.communication[begin:].any():
        return None
    is_late = launches.pause >= LONG_PAUSE * max(1, int(np.median(launches.pause)))
    token = launches.token + is_late * (int(launches.token.max()) + 1)
    kind = launches.kind + is_late * (int(launches.kind.max()) + 1)
    steps = _search(replace(launches, token=token, kind=kind), begin)
    return None if isinstance(steps, str) or len(steps.first) < MANY else steps


def _choose(launches: Launches, anchors: list[Anchor], begin: int) -> Anchor | None:
    """The best anchor of the shortest repetition that is a whole step."""
    optimizer = _spread_over(launches.optimizer, begin)
    codes, best_alike = launches.ngrams[ORDER], None
    for _, same in groupby(anchors, key=lambda anchor: anchor.count):
        best = max(
            same, key=lambda choice: (round(choice.cover, 2), choice.alike.mean(), -choice.length)
        )
        if optimizer is not None:
            is_complete = _all_hold(best, optimizer)
        else:
            is_complete = _is_whole(launches, best, begin)
            if _is_better(best, best_alike) and _in_order(codes, best):
                best_alike = best
        if is_complete and (_in_order(codes, best) or _is_even(best)):
            return best
    return best_alike


def _is_better(anchor: Anchor, other: Anchor | None) -> bool:
    """Whether clearly more of the anchor's stretches are alike than of the other's.

    The most frequent anchors come first. One of fewer and longer stretches must be clearly better,
    because two steps joined repeat as evenly as one.
    """
    if other is None:
        return True
    return bool(anchor.cover * anchor.alike.mean() > CLEAR * other.cover * other.alike.mean())


def _in_order(code: NDArray[np.uint64], anchor: Anchor) -> bool:
    """Whether alike stretches also hold the same launches in a row, not only the same counts."""
    rows = np.flatnonzero(anchor.alike[:-1] & anchor.alike[1:])[-LOOKS:]
    edges = [anchor.place[row : row + 3] for row in rows]
    same = [float(np.isin(code[a:b], code[b:c]).mean()) for a, b, c in edges]
    return bool(same) and float(np.median(same)) >= SAME_ORDER


def _is_even(anchor: Anchor) -> bool:
    """Whether all stretches, and not only a few, hold one number of launches.

    The length of a batch chooses kernels, for example by whether it is odd, and does not change
    their number. Parts of a step differ in number: one of them holds what is outside the layers.
    """
    return anchor.count > MANY and bool(np.ptp(np.diff(anchor.place)) == 0)


def _spread_over(flags: NDArray[np.bool_], begin: int) -> IntArray | None:
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
    if _spread_over(launches.to_device, begin) is not None:
        return False
    if _is_even(anchor):
        return True
    others = np.flatnonzero(~anchor.alike)
    if len(others) < FEW * len(anchor.alike) and not comes_regularly(others):
        return True
    other = anchor.place[:-1][~anchor.alike]
    behind = anchor.place[1:][~anchor.alike]
    fetched = np.diff(np.searchsorted(np.flatnonzero(launches.to_host), np.c_[other, behind]))
    if np.mean(fetched > 0) < HALF:
        return False
    time = np.add.reduceat(launches.gpu, anchor.place)[:-1].astype(np.float64)
    usual = float(np.median(time[anchor.alike]))
    more = float(np.maximum(time[~anchor.alike] - usual, 0).sum())
    return more < LITTLE_TIME * float(time.sum())


def _missing(launches: Launches, cycles: Cycles) -> str:
    """What of a step the recording holds and the stretches lack, or an empty text.

    Such stretches are parts of a longer step. A window of one or two steps repeats only layers
    or micro-batches: the optimizer or the all-reduce of the gradients comes once.
    """
    reach = slice(max(0, int(cycles.place[0]) - cycles.size), int(cycles.place[-1]) + cycles.size)
    beyond = {
        "the optimizer": np.flatnonzero(launches.optimizer),
        "a collective": reach.start + np.flatnonzero(launches.communication[reach]),
    }
    return next((name for name, place in beyond.items() if _is_rare(cycles, place)), "")


def _is_rare(cycles: Cycles, place: IntArray) -> bool:
    """Whether launches at `place` exist, but in half of the stretches at most: with two
    micro-batches a step, every other stretch ends with the optimizer.
    """
    counts = np.diff(np.searchsorted(place, cycles.place))
    return bool(len(place)) and float(np.mean(counts > 0)) <= HALF
