"""The pauses of an engine between requests: proven by what comes after them."""

import numpy as np

from gpu_profile.analysis.activity.serving.marks import DECODE, PREFILL
from gpu_profile.analysis.arrays.types import Flags, IntArray


def find_pauses_between_requests(
    kind: IntArray, batch: IntArray, idle: IntArray, step: IntArray
) -> Flags:
    """A mask of the iterations behind which the engine had no request.

    `idle`: ns without GPU work behind each iteration, `step`: ns of each one. An engine without
    requests goes on with a new prompt, and then decodes no more requests than came since. A pause
    before anything else is one of a slow step. So is one that is shorter than most steps.
    """
    pauses = np.zeros(len(kind), bool)
    usual = float(np.median(step - idle)) if len(step) else 0.0
    opens = (kind[1:] == PREFILL) & (kind[:-1] != PREFILL) & (idle[:-1] > usual)
    for row in np.flatnonzero(opens).tolist():
        pauses[row] = _begins_anew(kind, batch, row + 1)
    return pauses


def _begins_anew(kind: IntArray, batch: IntArray, first: int) -> bool:
    """Whether the prompts from row `first` on are all that is decoded behind them.

    A long prompt takes several iterations, in each of which its request counts. So of k iterations
    with n requests in all at least n - k + 1 are different ones.
    """
    others = np.flatnonzero(kind[first:] != PREFILL)
    behind = first + int(others[0]) if len(others) else len(kind)
    if behind == len(kind) or kind[behind] != DECODE:
        return True
    prompts = batch[first:behind]
    least = max(int(prompts.sum()) - (len(prompts) - 1), int(prompts[0]))
    return int(batch[behind]) <= least
