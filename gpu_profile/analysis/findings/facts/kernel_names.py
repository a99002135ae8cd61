"""The time of kernels, and by short name, as evidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, Activity
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.facts.windows import list_windows
from gpu_profile.formats.function_names import shorten_names

MOST_NAMES, NAME_WIDTH = 3, 60


@dataclass(frozen=True, eq=False)
class KernelTimes:
    """`time`: ns by window. `names`: ns in the whole report by short name."""

    time: IntArray
    names: Mapping[str, int]


def sum_kernels(activity: Activity, is_chosen: Callable[[str], bool]) -> KernelTimes:
    """The time of the kernels of compute whose full names are chosen."""
    ops = activity.ops
    is_compute = ops.kind == COMPUTE
    codes = list_distinct(ops.full_name[is_compute])
    chosen = [code for code in codes if is_chosen(activity.names[code])]
    rows = np.flatnonzero(is_compute & is_among(ops.full_name, chosen))
    time = list_windows(activity).sum(ops.start[rows], ops.length[rows].astype(np.int64))
    return KernelTimes(time, sum_by_name(activity, rows))


def sum_by_name(activity: Activity, rows: IntArray) -> dict[str, int]:
    """The time (ns) of these operations by short name."""
    ops = activity.ops
    codes, place = np.unique(ops.full_name[rows], return_inverse=True)
    total = np.bincount(place, weights=ops.length[rows], minlength=len(codes))
    texts = [activity.names[code] for code in codes.tolist()]
    short = shorten_names(texts, NAME_WIDTH)
    return {short[text]: int(ns) for text, ns in zip(texts, total, strict=True)}


def list_longest(names: Mapping[str, int]) -> str:
    """The names with most of the time, as words."""
    ordered = sorted(names, key=lambda name: (-names[name], name))
    return ", ".join(ordered[:MOST_NAMES])
