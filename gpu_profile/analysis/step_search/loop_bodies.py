"""Tell whether stretches are the body of a loop inside of a step, such as the layers of a network.

What is outside of such a loop (an embedding, a head, a copy of data) comes in every n-th stretch,
as additional launches in one place. A log does so, too; it copies to the host.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.anchors import Anchor, comes_regularly
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
    others = np.flatnonzero(~anchor.alike)
    if len(others) < FEWEST_ROUNDS or not comes_regularly(others):
        return False
    return bool(np.median(np.diff(others)) <= MOST_PARTS)


def are_launched_in_a_row(launches: Launches, anchor: Anchor) -> bool:
    """Whether the host works longer before every n-th stretch: the others are parts of its step.

    Of more than two parts each is a graph without data, which is launched behind no work.
    """
    row = int(anchor.place[len(anchor.place) // 2])
    body = slice(row, row + int(np.median(np.diff(anchor.place))))
    has_data = (launches.to_device | launches.to_host)[body].any()
    is_graph = launches.graph[body].any() and not has_data
    pause = np.maximum.reduceat(launches.pause, anchor.place)[:-1]
    ordered = np.sort(pause)
    for least in ordered[1:][ordered[1:] >= LONGER * np.maximum(ordered[:-1], 1)].tolist():
        apart = np.diff(np.flatnonzero(pause >= least))
        parts = int(np.median(apart)) if len(apart) >= FEWEST_ROUNDS else 0
        if parts < HALVES or np.mean(apart == parts) < MOST:
            continue
        usual = float(np.median(pause[pause < least]))
        if parts == HALVES or (is_graph and usual < IN_A_ROW_NS):
            return True
    return False


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
    behind = _count_true(token[::-1] == np.resize(usual[::-1], len(token)))
    bodies = min(before + behind, len(token)) // len(usual)
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
