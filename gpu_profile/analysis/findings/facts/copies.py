"""Large copies of one rank by direction and memory: for the rules pageable_copy, low_bandwidth."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMPUTE,
    COPY,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    Activity,
)
from gpu_profile.analysis.activity.idle.blocking_calls import STAGED_BYTES
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import list_windows

# Copies that cost less than 1 % of a step are not worth a change.
COPY_SHARE = 0.01
DIRECTIONS = {COPY_TO_DEVICE: "host to device", COPY_TO_HOST: "device to host"}

CopyKey = tuple[int, bool]
"""(copyKind of CUPTI, whether the host's memory is pageable)"""


@dataclass(frozen=True, eq=False)
class CopyTime:
    """Transfers above STAGED_BYTES of one direction and memory kind, by window.

    `rate` is their median in GB/s; `exposed_ns` is their time (ns) without concurrent compute.
    """

    count: IntArray
    bytes: IntArray
    time: IntArray
    exposed_ns: IntArray
    rate: float


@once_each
def sum_copies(activity: Activity) -> Mapping[CopyKey, CopyTime]:
    """The copies of one rank, computed once for both rules."""
    ops = activity.ops
    large = np.flatnonzero((ops.kind == COPY) & (ops.bytes >= STAGED_BYTES))
    hidden = ops.measure_covered((COMPUTE,), ops.start[large], ops.end[large])
    copies = {}
    for kind in list_distinct(ops.copy_kind[large]):
        for pageable in (False, True):
            chosen = (ops.copy_kind[large] == kind) & (ops.pageable[large] == pageable)
            if chosen.any():
                copies[kind, pageable] = _sum_rows(activity, large[chosen], hidden[chosen])
    return copies


def _sum_rows(activity: Activity, rows: IntArray, hidden: IntArray) -> CopyTime:
    """The sums of these copies; `hidden` is the part of each one's time beside compute (ns)."""
    ops, windows = activity.ops, list_windows(activity)
    start, end, size = ops.start[rows], ops.end[rows], ops.bytes[rows]
    exposed = end - start - hidden
    return CopyTime(
        count=windows.count(start),
        bytes=windows.sum(start, size),
        time=windows.sum(start, end - start),
        exposed_ns=windows.sum(start, exposed),
        rate=float(np.median(size / np.maximum(end - start, 1))),
    )
