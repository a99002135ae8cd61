"""The time of some kernels of a rank, chosen by their full names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.formats.function_names import shorten_names

NAME_WIDTH, MOST_NAMES = 60, 3


@dataclass(frozen=True, eq=False)
class KernelTimes:
    """`time`: ns by window. `names`: ns in the whole report by short name."""

    time: IntArray
    names: Mapping[str, int]

    def list_names(self) -> str:
        """The names with the most time: "gemm, conv"."""
        names = sorted(self.names, key=lambda name: (-self.names[name], name))
        return ", ".join(names[:MOST_NAMES])


def sum_kernels(activity: Activity, is_chosen: Callable[[str], bool]) -> KernelTimes:
    """The time of the kernels with chosen names, of compute only."""
    ops = activity.ops
    is_compute = ops.kind == COMPUTE
    codes = list_distinct(ops.full_name[is_compute])
    chosen = [code for code in codes if is_chosen(activity.names[code])]
    rows = np.flatnonzero(is_compute & is_among(ops.full_name, chosen))
    short = shorten_names([activity.names[code] for code in chosen], NAME_WIDTH)
    names = {
        short[activity.names[code]]: int(ops.length[rows[ops.full_name[rows] == code]].sum())
        for code in chosen
    }
    time = list_windows(activity).sum(ops.start[rows], ops.length[rows].astype(np.int64))
    return KernelTimes(time, names)
