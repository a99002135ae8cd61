"""Tell whether stretches are the body of a loop inside of a step, such as the layers of a network.

What is outside of such a loop (an embedding, a head, a copy of data) comes in every n-th stretch,
as additional launches in one place. A log does so, too; it copies to the host.
"""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.anchors import Anchor, comes_regularly
from gpu_profile.analysis.step_search.boundaries import Repetition
from gpu_profile.analysis.step_search.launches import Launches

# With fewer rounds of the loop nobody knows that it comes back. Two forms of a step that take
# turns, as with odd and even lengths of a batch, are no loop.
FEWEST_ROUNDS, FEWEST_BODIES = 8, 3
# What a text or an image with another shape launches differs in many places. Of the stretches that
# hold more than usual the last 9 are looked at.
LOOKS, MOST = 9, 0.75
# Two answers by one model and one by another, again and again, are three parts of a step. What
# comes more seldom may be an evaluation or a checkpoint.
MOST_PARTS = 4
# The host works before each step, and not between the parts that it launches in a row. A call of a
# compiled function takes Python 0.25 ms or more (JAX), and XLA up to 0.07 ms from one graph to the
# next. A log or a check in each n-th step takes the host long, too, but seldom in every second one.
LONGER, IN_A_ROW_NS, HALVES = 2, 100_000, 2
# So many pauses are tried as the shortest of the long ones.
LIMITS = 32


def is_loop_body(launches: Launches, anchor: Anchor) -> bool:
    """Whether every n-th stretch holds launches from outside of a loop, and the others its body.

    Data that comes in, or a graph, is in each step: a stretch with one is no body.
    """
    size = np.diff(anchor.place)
    counts = np.bincount(size)
    usual = int(np.argmax(counts))
    longer = np.flatnonzero(size > usual)
    if 2 * int(counts[usual]) < len(size) or not _come_back(longer):
        return False
    body = slice(start := int(anchor.place[np.flatnonzero(size == usual)[-1]]), start + usual)
    if (launches.to_device | launches.graph)[body].any():
        return False
    rows = [_find_extra(launches, anchor, row, body) for row in longer[-LOOKS:].tolist()]
    outside = [_is_outside(launches, extra, body) for extra in rows if extra is not None]
    return sum(outside) >= MOST * len(rows)


def takes_turns(anchor: Anchor) -> bool:
    """Whether every third or fourth stretch is another one: they are the parts of a step."""
    others = np.flatnonzero(~anchor.is_alike)
    if len(others) < FEWEST_ROUNDS or not comes_regularly(others):
        return False
    return bool(np.median(np.diff(others)) <= MOST_PARTS)


def join_parts(launches: Launches, steps: Repetition) -> Repetition:
    """The steps, each with all parts that the host launches in a row: it works longer before every
    n-th one only.

    More than two parts are graphs without data, which the host launches without work between them.
    """
    begins = _find_longer_pauses(launches, steps)
    if not len(begins):
        return steps
    parts = int(np.median(np.diff(begins)))
    kept = [*range(int(begins[0]) % parts, int(begins[0]) + 1, parts)]
    for begin in begins[1:].tolist():
        if (begin - kept[-1]) % parts == 0:
            kept += range(kept[-1] + parts, begin, parts)
        # A function that is compiled within a step lets the host work there, too.
        if 2 * (begin - kept[-1]) > parts:
            kept.append(begin)
    first = steps.first[kept]
    return replace(steps, first=first, size=int(np.median(np.diff(first))))


def _find_longer_pauses(launches: Launches, steps: Repetition) -> IntArray:
    """The numbers of the steps before which the host works longer, if these are every n-th one."""
    pause = np.maximum(np.maximum.reduceat(launches.pause[: steps.end], steps.first), 1)
    ordered = np.sort(pause)
    widest = np.argsort(ordered[1:] / ordered[:-1], kind="stable")[-LIMITS:]
    limits = ordered[1 + widest].tolist()
    regular = {limit: _measure_regularity(pause >= limit) for limit in limits}
    limits = [limit for limit in limits if regular[limit] >= MOST]
    if not limits:
        return np.empty(0, np.int64)
    # A function that is compiled in each tenth step is regular, too.
    rounds = max(np.count_nonzero(pause >= limit) for limit in limits)
    least = max(
        limits, key=lambda limit: (2 * np.count_nonzero(pause >= limit) > rounds, regular[limit])
    )
    begins = np.flatnonzero(pause >= least)
    body = slice(row := int(steps.first[len(steps.first) // 2]), row + steps.size)
    has_data = (launches.to_device | launches.to_host)[body].any()
    longer, usual = float(np.median(pause[begins])), float(np.median(pause[pause < least]))
    is_row = launches.graph[body].any() and not has_data and usual < IN_A_ROW_NS
    are_parts = is_row or np.median(np.diff(begins)) == HALVES
    return begins if are_parts and longer >= LONGER * usual else begins[:0]


def _measure_regularity(flags: Flags) -> float:
    """The part of the flags that come every n-th time; 0 for less than FEWEST_ROUNDS, and for
    neighbours.
    """
    apart = np.diff(np.flatnonzero(flags))
    usual = float(np.median(apart)) if len(apart) >= FEWEST_ROUNDS else 0.0
    return float(np.mean(apart == usual)) if usual >= HALVES else 0.0


def _come_back(longer: IntArray) -> bool:
    """Whether these stretches come often enough, and every n-th time."""
    if len(longer) < FEWEST_ROUNDS or not comes_regularly(longer):
        return False
    return bool(np.median(np.diff(longer)) >= FEWEST_BODIES)


def _find_extra(launches: Launches, anchor: Anchor, row: int, body: slice) -> slice | None:
    """The launches of this stretch beside one body or more, if they are in one place."""
    begin, end = (int(place) for place in anchor.place[row : row + 2])
    token, usual = launches.token[begin:end], launches.token[body]
    before = _count_true(token == np.resize(usual, len(token)))
    after = _count_true(token[::-1] == np.resize(usual[::-1], len(token)))
    bodies = min(before + after, len(token)) // len(usual)
    extra = len(token) - bodies * len(usual)
    begin += min(before, len(token) - extra)
    return slice(begin, begin + extra) if bodies and extra else None


def _count_true(flags: Flags) -> int:
    """How many flags are set before the first one that is not."""
    return len(flags) if flags.all() else int(np.argmin(flags))


def _is_outside(launches: Launches, extra: slice, body: slice) -> bool:
    """Whether these launches are from outside of a loop, and no log of every n-th step.

    A body that multiplies matrices and copies nothing is no step of an inference, which gets its
    data or gives its result: then what is read is the result.
    """
    copies = launches.to_device | launches.to_host
    if launches.to_device[extra].any() or not launches.to_host[extra].any():
        return True
    is_log = launches.to_host[body].any() or not launches.multiplies[body].any()
    return not is_log and not bool(copies[extra].all())
