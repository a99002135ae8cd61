"""The tracks of a rank's streams, and the flows from its calls to their operations."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, COPY, NO_CALL, Activity
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.timeline.perfetto import NO_FLOW


@dataclass(frozen=True, eq=False)
class Slices:
    """The content of one track: intervals sorted by start, with their names and flow ids."""

    title: str
    start: IntArray
    end: IntArray
    name: IntArray
    flow: IntArray
    arrives: bool = False
    is_encoded: bool = False
    """Whether the names are numbers of the trace already."""


def list_flows(activity: Activity, base: int, linked: IntArray) -> IntArray:
    """The flow id of the first operation of each call (a graph launch has many), else NO_FLOW."""
    ops = activity.ops
    with_call = np.flatnonzero(ops.call != NO_CALL)
    calls, first = np.unique(ops.call[with_call].astype(np.int64), return_index=True)
    fresh = ~linked[calls]
    linked[calls] = True
    flow = np.full(len(ops.start), NO_FLOW)
    flow[with_call[first[fresh]]] = base + calls[fresh] + 1
    return flow


def list_streams(activity: Activity, flow: IntArray) -> Iterator[Slices]:
    """The operations of each stream, sorted by start."""
    ops = activity.ops
    for stream in np.unique(ops.stream):
        chosen = np.flatnonzero(ops.stream == stream)
        kinds = set(np.unique(ops.kind[chosen]).tolist())
        what = {(COMMUNICATION,): " communication", (COPY,): " copies"}.get(tuple(kinds), "")
        title = f"GPU stream {int(stream)}{what}"
        yield Slices(
            title, ops.start[chosen], ops.end[chosen], ops.name[chosen], flow[chosen], True
        )
