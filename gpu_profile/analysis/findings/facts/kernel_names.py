"""The time of kernels by short name, as evidence."""

from collections.abc import Mapping

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.formats.function_names import shorten_names

MOST_NAMES, NAME_WIDTH = 3, 60


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
