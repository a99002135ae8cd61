"""Find which launches after the optimizer still belong to its step, and where the next begins."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.launches import Launches

# After the optimizer, launches that take less than 3 % of the step's GPU time can still belong to
# the step: an average of the weights, the batches' copies and the counts of their tokens (HF
# Trainer: 6 launches for each batch of the accumulation). The copy of a loss for a log is one of
# the first 24 launches; later ones are of the forward pass.
TAIL_TIME, TAIL_LAUNCHES = 0.03, 24
# Lightning sends a flag, reduces it and reads it in 3 launches; transformers reads whether its mask
# is causal 13 to 17 launches after the copy to the device or after the optimizer.
FORWARD_LAUNCHES = 8
# Zeroing the gradients between the optimizer and the batch's copy may take up to 10 %, and 20 %
# where the host pauses longest before the copy, as it waits for the batch.
ZEROING_TIME, ZEROING_BEFORE_WAIT = 0.1, 0.2
# Of the host's pauses the first one counts that is at least half as long as the longest.
LONG_PAUSE = 0.5
# A pause after the batch's copies tells that a framework works there (callbacks of Lightning, HF
# Trainer) if it is 3 times as long as 90 % of the step's pauses (measured: 6 to 70 times). A host
# that works before every launch pauses there as anywhere.
LONGER, MOST_PAUSES = 3.0, 0.9
# Directly after the copies it must also be the longest pause of the rest of the step by 20 %: 1.5
# to 1.65 times the next longest in Lightning, 0.2 to 0.94 times in plain loops, whose model does
# some work of its own before its first kernel (DDP: 0.3 ms).
LONGEST = 1.2
# An operation belongs to the loop if it is in 60 % of the steps.
MOSTLY = 0.6
# Copies are one group if 75 % of the cycle is free of them.
ONE_GROUP = 0.75


def count_tail(launches: Launches, last: IntArray, size: int) -> int:
    """How many launches after the last optimizer launch still belong to the step.

    A copy to the host (a loss to log) does. The next step begins at the batch's copies to the
    device if they are one group, or after them if the host pauses longer there (a trainer that
    fetches its batches one step ahead). Otherwise it begins at the host's first long pause.
    """
    width = max(1, size // 4)
    rows = _before_usual(last)
    rows = rows[rows + max(width, size) < len(launches)]
    if len(rows) < 2:
        return 0
    window = rows[:, None] + 1 + np.arange(size)
    total = float(launches.gpu[rows[0] : rows[-1]].sum()) / max(1, len(rows) - 1)
    spent = np.cumsum(np.median(launches.gpu[window[:, :width]], axis=0))
    before = np.r_[0.0, spent[:-1]]
    allowed = before <= TAIL_TIME * total
    sent = are_mostly(launches.to_device[window])
    fetched = allowed & are_mostly(launches.to_host[window[:, :width]])
    low = _find_after_log(fetched, sent)
    pauses = np.median(launches.pause[window], axis=0)
    allowed[low] = True
    copy = _first_copy(sent, low)
    if copy is None or copy >= width or before[copy] > _zeroing(pauses, copy) * total:
        few = min(width, TAIL_LAUNCHES)
        pause = np.where(allowed[:few] & (np.arange(few) >= low), pauses[:few], 0)
        return int(np.argmax(pause >= LONG_PAUSE * pause.max()))
    return _find_after_fetch(pauses, sent, copy, int(np.flatnonzero(allowed)[-1]))


def _before_usual(last: IntArray) -> IntArray:
    """The steps' last optimizer launches, without those before a step with a log or a checkpoint.

    A step is usual if it launches as much as most do. Where less than a third are, all count:
    tokens that are routed to experts change the number of launches.
    """
    size, counts = np.unique(np.diff(last), return_counts=True)
    if not len(size) or counts.max() < max(2, len(last) / 3):
        return last
    is_usual = np.diff(last) == size[np.argmax(counts)]
    return np.asarray(last[:-1][is_usual])


def _zeroing(pauses: NDArray[np.float64], copy: int) -> float:
    """The part of a step that zeroing may take before the batch's copy."""
    others = np.delete(pauses, copy).max(initial=0)
    return ZEROING_BEFORE_WAIT if pauses[copy] >= LONGEST * others else ZEROING_TIME


def _find_after_log(fetched: Flags, sent: Flags) -> int:
    """The offset after the last copy to the host, e.g. of the loss for a log.

    A copy to the host well after the optimizer, or after the copy before, is one of the forward
    pass.
    """
    row = np.arange(len(fetched))
    copied = np.where(fetched | sent[: len(row)], row, -1)
    since = row - np.r_[-1, np.maximum.accumulate(copied)[:-1]]
    place = np.flatnonzero(fetched[:TAIL_LAUNCHES])
    place = place[np.cumsum(since[place] > FORWARD_LAUNCHES) == 0]
    return min(int(place[-1]) + 1, len(fetched) - 1) if len(place) else 0


def _first_copy(sent: Flags, low: int) -> int | None:
    """The offset of the batch's first copy to the device, at `low` or later; None unless the
    copies of a step are one group.
    """
    place = np.flatnonzero(sent[low:])
    return low + int(place[0]) if len(place) and find_group(sent) is not None else None


def _find_after_fetch(pauses: NDArray[np.float64], sent: Flags, copy: int, last: int) -> int:
    """The offset of a step's first launch: `copy`, the first of the batch's copies `sent`, or a
    later launch up to `last` before which a framework works.

    A pause after launches that follow the copies (HF Trainer counts the batch's tokens) tells if
    it is longer than the wait for the batch.
    """
    if last <= copy:
        return copy
    later = copy + 1 + int(np.argmax(pauses[copy + 1 : last + 1]))
    if sent[copy:later].all():
        longest = pauses[later] >= LONGEST * pauses[later + 1 :].max()
    else:
        longest = pauses[later] >= pauses[copy]
    works = pauses[later] >= LONGER * np.quantile(pauses, MOST_PAUSES)
    return later if works and longest else copy


def are_mostly(window: Flags) -> Flags:
    """For each column (an offset in the step) whether the flag is set in most rows (steps)."""
    return np.asarray(window.mean(axis=0) >= MOSTLY)


def find_group(flags: Flags, *, may_be_row: bool = False) -> tuple[int, int] | None:
    """(first, last) place of the flags if they are one group on a circle, else None.

    `may_be_row`: they are one, too, if nothing is between them, in however short a step.
    """
    place = np.flatnonzero(flags)
    if not len(place):
        return None
    free = np.diff(np.r_[place, place[0] + len(flags)])
    widest = int(np.argmax(free))
    is_row = may_be_row and free[widest] == len(flags) - len(place) + 1
    if len(place) > 1 and not is_row and free[widest] < ONE_GROUP * len(flags):
        return None
    return int(place[(widest + 1) % len(place)]), int(place[widest])
