"""Columns of a table by their names: all of one length."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpu_profile.analysis.arrays.columns import time_order
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.protocol import Store
from gpu_profile.analysis.store.schema import MISSING

Columns = dict[str, IntArray]
Made = dict[str, Any]  # columns of other types, too


def fill_columns(columns: Sequence[str], loaded: Columns, length: int) -> Columns:
    """The columns in this order; MISSING in each row of one that was not loaded."""
    names = [name.rstrip("?") for name in columns]
    absent = {name for name in names if name not in loaded}
    return {name: np.full(length, MISSING) if name in absent else loaded[name] for name in names}


def gather_columns(
    store: Store,
    table: str,
    columns: Sequence[str],
    present: Sequence[str],
    convert: Callable[[Columns], Made],
) -> Made:
    """What `convert` makes of the columns, of which those `present` are in the table."""
    names: list[str] = []

    def convert_arrays(arrays: list[IntArray]) -> list[IntArray]:
        loaded = dict(zip(present, arrays, strict=True))
        values = convert(fill_columns(columns, loaded, len(arrays[0])))
        names[:] = values
        return list(values.values())

    arrays = store.gather(table, present, convert_arrays)
    return dict(zip(names, arrays, strict=True))


def sort_columns(columns: Columns, *keys: str) -> Columns:
    """The same rows in a stable sort by those of the keys that exist, the first key first."""
    keys_present = [columns[key] for key in keys if key in columns]
    if not keys_present:
        return columns
    order = time_order(keys_present[0], keys_present[-1])
    return columns if order is None else {name: col[order] for name, col in columns.items()}
