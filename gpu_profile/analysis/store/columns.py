"""Columns of a table by their names: all of one length."""

from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.arrays.columns import time_order
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.schema import MISSING

Columns = dict[str, IntArray]


def fill_columns(columns: Sequence[str], loaded: Columns, length: int) -> Columns:
    """The columns in this order; MISSING in each row of one that was not loaded."""
    names = [name.rstrip("?") for name in columns]
    absent = {name for name in names if name not in loaded}
    return {name: np.full(length, MISSING) if name in absent else loaded[name] for name in names}


def sort_columns(columns: Columns, *keys: str) -> Columns:
    """The same rows in a stable sort by those of the keys that exist, the first key first."""
    keys_present = [columns[key] for key in keys if key in columns]
    if not keys_present:
        return columns
    order = time_order(keys_present[0], keys_present[-1])
    return columns if order is None else {name: col[order] for name, col in columns.items()}
