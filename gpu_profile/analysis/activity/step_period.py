"""Steps that no range marks: where the launches of a rank repeat."""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.activity.step_ranges import FEWEST_STEPS
from gpu_profile.analysis.arrays.types import IntArray

PERIOD_MATCH = 0.9
PERIOD_NAMES, PERIOD_LAGS, PERIOD_SAMPLE = 5, 64, 200_000


@dataclass(frozen=True, eq=False)
class RepeatedSteps:
    """When the host began and ended each step (ns), how that was found, and how surely (0 to 1)."""

    source: str
    start: IntArray
    end: IntArray
    confidence: float


def repeated_steps(activity: Activity) -> RepeatedSteps | str:
    """The steps by repetition, or why there are none."""
    ops = activity.ops
    rows = np.flatnonzero(ops.kind == COMPUTE)
    rows = rows[np.argsort(activity.launched[rows], kind="stable")]
    period = _repetition(ops.name[rows][:PERIOD_SAMPLE])
    if not period:
        return "the launches do not repeat"
    edges = _step_edges(activity.launched[rows], period)
    if len(edges) <= FEWEST_STEPS:
        return f"the launches repeat fewer than {FEWEST_STEPS} times"
    return RepeatedSteps(f"repetition of {period} launches", edges[:-1], edges[1:], 0.9)


def _repetition(codes: IntArray) -> int:
    """The shortest distance at which the sequence equals itself about as well as at any; or 0.

    A network's layers repeat within a step, but less exactly than whole steps do.
    """
    names, counts = np.unique(codes, return_counts=True)
    enough = np.flatnonzero(counts >= FEWEST_STEPS)
    rarest = enough[np.argsort(counts[enough], kind="stable")][:PERIOD_NAMES]
    distances = set[int]()
    for name in names[rarest]:
        places = np.flatnonzero(codes == name)
        distances.update((places[1 : PERIOD_LAGS + 1] - places[0]).tolist())
    match = {
        distance: float(np.mean(codes[distance:] == codes[:-distance]))
        for distance in sorted(distances)
        if distance * FEWEST_STEPS <= len(codes)
    }
    best = max(match.values(), default=0.0)
    close = [distance for distance, share in match.items() if share >= 0.98 * best]
    return close[0] if best >= PERIOD_MATCH else 0


def _step_edges(launched: IntArray, period: int) -> IntArray:
    """Launch times that part the periods, put where the host pauses longest: between steps."""
    pause = np.r_[0, np.diff(launched)]
    whole = np.arange(0, len(launched) - period + 1, period)
    typical = np.median(pause[whole[:, None] + np.arange(period)], axis=0)
    edges = whole + int(np.argmax(typical))
    return launched[edges[edges < len(launched)]]
