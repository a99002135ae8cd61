"""The lanes of a report, a process on a device each, and the operations of one."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import Ops
from gpu_profile.analysis.activity.load.operations import SPARSE, Part
from gpu_profile.analysis.arrays.columns import list_distinct, time_order
from gpu_profile.analysis.arrays.types import IntArray

# A process that merely opened a context on a second GPU is not a second rank.
SECOND_DEVICE_SHARE = 0.1
OPS_COLUMNS = ("start", "length", "kind", "streamId", "name", "full_name", "call", *SPARSE)


def list_lanes(parts: Sequence[Part], processes: IntArray) -> list[tuple[int, int]]:
    """(process, device) pairs that did real work, by process id, then device."""
    busy: dict[int, dict[int, int]] = {}
    for part in parts:
        duration = part["length"]
        for number in list_distinct(part["process"]):
            of_process = part["process"] == number
            for device in list_distinct(part["deviceId"][of_process]):
                time = int(duration[of_process & (part["deviceId"] == device)].sum())
                devices = busy.setdefault(int(processes[number]), {})
                devices[device] = devices.get(device, 0) + time
    return [
        (process, device)
        for process, devices in sorted(busy.items())
        for device, time in sorted(devices.items())
        if time >= SECOND_DEVICE_SHARE * max(devices.values())
    ]


def _select_rows(columns: Part, rows: NDArray[np.bool_]) -> Part:
    """Return the rows of a mask; the same arrays where it chooses all."""
    if rows.all():  # one rank in the report: no copy of the columns
        return columns
    return {key: values[rows] for key, values in columns.items()}


def select_lane(parts: Sequence[Part], process: int, device: int) -> list[Part]:
    """The operations of one process (its number) on one device, a set of columns for each kind."""
    lane_parts = (
        _select_rows(part, (part["process"] == process) & (part["deviceId"] == device))
        for part in parts
    )
    return [{key: part[key] for key in OPS_COLUMNS if key in part} for part in lane_parts]


def make_ops(lane_parts: Sequence[Part], shapes: IntArray) -> Ops:
    """The operations of select_lane(), of all kinds, in time order; takes the columns out of it."""
    start, length = (
        np.concatenate([part.pop(key) for part in lane_parts]) for key in ("start", "length")
    )
    sizes = [len(part["kind"]) for part in lane_parts]
    order = time_order(start, length)
    column = partial(_take_column, lane_parts, sizes, order)
    return Ops(
        start=start if order is None else start[order],
        length=length if order is None else length[order],
        kind=column("kind"),
        stream=column("streamId"),
        name=column("name"),
        bytes=column("bytes"),
        copy_kind=column("copy_kind"),
        pageable=column("pageable"),
        full_name=column("full_name"),
        call=column("call"),
        graph_node=column("graph_node"),
        shape=column("shape"),
        shapes=shapes,
    )


def _take_column(
    lane_parts: Sequence[Part], sizes: Sequence[int], order: IntArray | None, key: str
) -> Any:  # noqa: ANN401 - an array of the column's own type
    empty = SPARSE.get(key)
    if empty and not any(key in part for part in lane_parts):
        # One cell that stands for all, in place of 8 bytes for each operation.
        return np.broadcast_to(np.zeros((), empty), sum(sizes))
    kind = np.result_type(*(part[key] for part in lane_parts if key in part))
    cells = [
        part.pop(key) if key in part else np.zeros(size, kind)
        for part, size in zip(lane_parts, sizes, strict=True)
    ]
    joined = np.concatenate(cells)
    return joined if order is None else joined[order]
