"""The pauses of an engine between requests: proven by what comes after them."""

import numpy as np

from gpu_profile.analysis.activity.serving.marks import DECODE, NOT_TOLD, PREFILL, Iterations
from gpu_profile.analysis.arrays.types import Flags, IntArray


def find_pauses_between_requests(found: Iterations, idle: IntArray, step: IntArray) -> Flags:
    """A mask of the iterations behind which the engine had no request.

    `idle`: ns without GPU work behind each iteration, `step`: ns of each one. An engine without
    requests goes on with a new prompt, and then decodes no more requests than came since. A pause
    before anything else is one of a slow step. So is one that is shorter than most steps.
    """
    kind, pauses = found.kind, np.zeros(len(found.kind), bool)
    usual = float(np.median(step - idle)) if len(step) else 0.0
    opens = (kind[1:] == PREFILL) & (kind[:-1] != PREFILL) & (idle[:-1] > usual)
    for row in np.flatnonzero(opens).tolist():
        pauses[row] = _begins_anew(found, row + 1)
    return pauses


def _begins_anew(found: Iterations, first: int) -> bool:
    """Whether the prompts from row `first` on are all that is decoded behind them.

    A long prompt takes several iterations, in each of which its request counts again. All but the
    last of these hold as many tokens as fit.
    """
    others = np.flatnonzero(found.kind[first:] != PREFILL)
    behind = first + int(others[0]) if len(others) else len(found.kind)
    if behind == len(found.kind) or found.kind[behind] != DECODE:
        return True
    earlier = found.prompts[first : behind - 1]
    continued = (earlier == NOT_TOLD) | (earlier == found.prompts.max())
    least = int(found.batch[first:behind].sum()) - int(np.sum(continued))
    return int(found.batch[behind]) <= least
