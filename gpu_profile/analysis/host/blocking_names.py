"""Name a program's blocking calls by the Python code that makes them: `.item()`, `.cpu()`."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COPY,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    NO_CALL,
    Activity,
)
from gpu_profile.analysis.activity.idle.blocking_calls import blocking_calls
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.tables.labels import API_VERSION
from gpu_profile.analysis.tables.statistics import encode_rows

# Frameworks block on a copy by a synchronisation right after it: PyTorch's memcpy_and_sync calls
# cudaMemcpyAsync, then cudaStreamSynchronize a few microseconds later:
# https://github.com/pytorch/pytorch/blob/v2.11.0/c10/cuda/CUDAFunctions.h
NEAR_CALLS, NEAR_NS = 3, 1_000_000
# .item() copies one element; the largest type, complex128, has 16 bytes.
ONE_VALUE_BYTES = 16

NOTHING, VALUE, TO_HOST, TO_DEVICE = range(4)
_OF_ITSELF = (
    "",
    " of one value to the host, as .item() makes it",
    " to the host, as .cpu() makes it",
    " from pageable memory, as .to(device) makes it",
)
_AFTER = (
    "",
    " after one value was copied to the host, as .item() makes it",
    " after a copy to the host, as .cpu() makes it",
    " after a copy to the device, as .to(device) makes it",
)


def name_blocking_calls(activity: Activity) -> tuple[IntArray, tuple[str, ...]]:
    """(codes, names): an index into `names` for each of blocking_calls(), and the distinct names.

    For example "cudaStreamSynchronize after one value was copied to the host, as .item() makes
    it".
    """
    rows = blocking_calls(activity).call
    copies_by_call = _find_copies(activity)
    copied = copies_by_call[rows]
    before_call = np.where(
        copied == NOTHING, copies_by_call[_copy_before(activity, rows, copies_by_call)], NOTHING
    )
    columns = (activity.calls.name[rows], copied.astype(np.int64), before_call.astype(np.int64))
    codes, combinations = encode_rows(*columns)
    names = [
        f"{API_VERSION.sub('', activity.names[name])}{_OF_ITSELF[itself]}{_AFTER[before]}"
        for name, itself, before in combinations
    ]
    unique = tuple(dict.fromkeys(names))
    place = np.array([unique.index(name) for name in names], np.int64)
    return (place[codes] if len(codes) else codes), unique


def _find_copies(activity: Activity) -> NDArray[np.int8]:
    """What each call copies. The extra last cell is NOTHING, for index NO_CALL (-1)."""
    ops = activity.ops
    copies = (ops.kind == COPY) & (ops.call != NO_CALL)
    copies_by_call = np.full(len(activity.calls.start) + 1, NOTHING, np.int8)
    to_host = copies & (ops.copy_kind == COPY_TO_HOST)
    copies_by_call[ops.call[copies & (ops.copy_kind == COPY_TO_DEVICE)]] = TO_DEVICE
    copies_by_call[ops.call[to_host]] = TO_HOST
    copies_by_call[ops.call[to_host & (ops.bytes <= ONE_VALUE_BYTES)]] = VALUE
    return copies_by_call


def _copy_before(activity: Activity, rows: IntArray, copies_by_call: NDArray[np.int8]) -> IntArray:
    """The call of the copy right before each of these calls on its thread, or NO_CALL."""
    calls = activity.calls
    copy_calls, threads = np.full(len(rows), NO_CALL), calls.thread[rows]
    for thread in list_distinct(threads):
        of_thread = np.flatnonzero(calls.thread == thread)
        chosen = np.flatnonzero(threads == thread)
        place = np.searchsorted(of_thread, rows[chosen])
        for back in range(NEAR_CALLS, 0, -1):
            before = of_thread[np.maximum(place - back, 0)]
            near = calls.start[rows[chosen]] - calls.end[before] <= NEAR_NS
            copy = near & (before != rows[chosen]) & (copies_by_call[before] != NOTHING)
            copy_calls[chosen[copy]] = before[copy]
    return copy_calls
