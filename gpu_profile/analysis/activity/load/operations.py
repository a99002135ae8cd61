"""The GPU operations of a report: columns by kind, and the operations of one rank."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    PAGEABLE,
    SET,
    Calls,
    Ops,
)
from gpu_profile.analysis.activity.graph_captures import NO_NODE, NODES
from gpu_profile.analysis.arrays.columns import (
    Index,
    is_among,
    list_distinct,
    narrow_column,
    time_order,
)
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.store.schema import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
)
from gpu_profile.analysis.tables.comm_kernels import comm_kernel, function_name, needs_namespace

Part = dict[str, Any]  # columns of one length, of different types

GRAPH_NAME = "CUDA graph"
COPY_NAMES = {1: "copy HtoD", 2: "copy DtoH", 8: "copy DtoD", 10: "copy PtoP"}
# A process that merely opened a context on a second GPU is not a second rank.
SECOND_DEVICE_SHARE = 0.1
COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
# Columns that only some kinds of operations have; they are 0 for the others.
SPARSE = {
    "bytes": np.int64,
    "copy_kind": np.int8,
    "pageable": np.bool_,
    "graph_node": np.int64,
    "grid": np.int32,
    "blocks": np.int32,
}
GRID = ("gridX", "gridY", "gridZ")


OPS_COLUMNS = ("start", "end", "kind", "streamId", "name", "full_name", "correlationId", *SPARSE)


def load_operations(database: Database) -> tuple[list[Part], dict[int, str]]:
    """All GPU operations of a report, one set of columns for each kind, and the texts of their
    names.
    """
    columns = (*COMMON, "shortName", "demangledName?", *(f"{name}?" for name in GRID))
    kernels: Part = {**database.load(KERNEL, *columns, sort=False)}
    _number_grids(kernels, database.has(KERNEL, *GRID))
    kernels["full_name"] = np.where(
        kernels["demangledName"] == MISSING, kernels["shortName"], kernels["demangledName"]
    )
    names = _name_kernels(database, kernels)
    comm_names = [key for key, text in names.items() if comm_kernel(text)]
    names = database.names(kernels["full_name"]) | names
    communicates = is_among(kernels["name"], comm_names).view(np.int8)
    kernels["kind"] = np.array([COMPUTE, COMMUNICATION], np.int8)[communicates]
    parts = [kernels, _load_copies(database), *_load_memsets_and_graphs(database)]
    for part in parts[1:]:
        part["full_name"] = part["name"]
    if database.has(NODES):
        for part, table in zip(parts, (KERNEL, MEMCPY, MEMSET), strict=False):
            nodes = database.load(table, "start", "graphNodeId?", sort=False)["graphNodeId"]
            part["graph_node"] = np.maximum(nodes, NO_NODE)
    # Our own names ("memset") get negative ids, which nsys never uses.
    # CUPTI knows 11 kinds of copies (CUpti_ActivityMemcpyKind); those of a later one are "copy",
    # too.
    names.update({-1 - kind: COPY_NAMES.get(kind, "copy") for kind in range(100)})
    names.update({-101: "memset", -102: GRAPH_NAME})
    return parts, names


def _number_grids(kernels: Part, is_known: bool) -> None:
    """Set the columns `grid` and `blocks` in place of the sides of the grids."""
    x, y, z = (kernels.pop(name) for name in GRID)
    if is_known:
        # A prime in place of a pair: where two grids get one number, kernels of one name count as
        # equal.
        kernels["grid"], kernels["blocks"] = narrow_column(x * 1009 + y), narrow_column(x * y * z)


def _name_kernels(database: Database, kernels: Part) -> dict[int, str]:
    """Set the column `name` of the kernels: the short name, which lacks the namespace, or the
    function's full name where only that shows communication ("deep_ep::intranode::dispatch").
    """
    kernels["name"] = kernels["shortName"]
    names = database.names(kernels["shortName"])
    doubtful = [key for key, text in names.items() if needs_namespace(text)]
    if not doubtful or not database.has(KERNEL, "demangledName"):
        return names
    full_names = database.load(KERNEL, "demangledName", sort=False)["demangledName"]
    rows = np.flatnonzero(is_among(kernels["shortName"], doubtful))
    texts = {key: function_name(text) for key, text in database.names(full_names[rows]).items()}
    is_comm = is_among(full_names[rows], [key for key, text in texts.items() if comm_kernel(text)])
    kernels["name"] = kernels["shortName"].copy()
    kernels["name"][rows[is_comm]] = full_names[rows[is_comm]]
    return names | {key: texts[key] for key in list_distinct(full_names[rows[is_comm]])}


def _load_copies(database: Database) -> Part:
    columns = ("bytes", "copyKind", "srcKind?", "dstKind?")
    rows: Part = {**database.load(MEMCPY, *COMMON, *columns, sort=False)}
    rows["kind"] = np.full(len(rows["start"]), COPY, np.int8)
    rows["name"] = -1 - rows["copyKind"]
    rows["bytes"] = np.maximum(rows["bytes"], 0)
    rows["copy_kind"] = rows["copyKind"].astype(np.int8)
    rows["pageable"] = (rows["srcKind"] == PAGEABLE) | (rows["dstKind"] == PAGEABLE)
    return rows


def _load_memsets_and_graphs(database: Database) -> Iterator[Part]:
    """Memsets and replayed CUDA graphs, one set of columns each."""
    kinds = ((MEMSET, ("bytes",), SET, -101), (GRAPH, (), COMPUTE, -102))
    for table, columns, kind, name in kinds:
        rows: Part = {**database.load(table, *COMMON, *columns, sort=False)}
        size = len(rows["start"])
        rows["kind"], rows["name"] = np.full(size, kind, np.int8), np.full(size, name)
        rows |= {key: np.maximum(rows[key], 0) for key in columns}
        yield rows


def list_lanes(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """(process, device) pairs that did real work, by process id, then device."""
    busy: dict[int, dict[int, int]] = {}
    for part in parts:
        duration = part["end"] - part["start"]
        for process in list_distinct(part["globalPid"]):
            of_process = part["globalPid"] == process
            for device in list_distinct(part["deviceId"][of_process]):
                time = int(duration[of_process & (part["deviceId"] == device)].sum())
                devices = busy.setdefault(process, {})
                devices[device] = devices.get(device, 0) + time
    return [
        (process, device)
        for process, devices in sorted(busy.items())
        for device, time in sorted(devices.items())
        if time >= SECOND_DEVICE_SHARE * max(devices.values())
    ]


def select_rows(columns: Part, rows: NDArray[np.bool_]) -> Part:
    """Return the rows of a mask; the same arrays where it chooses all."""
    if rows.all():  # one rank in the report: no copy of the columns
        return columns
    return {key: values[rows] for key, values in columns.items()}


def select_lane(parts: Sequence[Part], process: int, device: int) -> list[Part]:
    """The operations of one process on one device, one set of columns for each kind."""
    lane_parts = (
        select_rows(part, (part["globalPid"] == process) & (part["deviceId"] == device))
        for part in parts
    )
    return [{key: part[key] for key in OPS_COLUMNS if key in part} for part in lane_parts]


def make_ops(lane_parts: Sequence[Part], calls: Calls) -> Ops:
    """The operations of select_lane(), of all kinds, in time order; takes the columns out of it."""
    start, end = (
        np.concatenate([part.pop(key) for part in lane_parts]) for key in ("start", "end")
    )
    sizes = [len(part["kind"]) for part in lane_parts]
    order = time_order(start, end)

    def column(key: str) -> Any:  # noqa: ANN401
        empty = SPARSE.get(key)
        if empty and not any(key in part for part in lane_parts):
            # One cell that stands for all, in place of 8 bytes for each operation.
            return np.broadcast_to(np.zeros((), empty), len(start))
        cells = [
            np.zeros(size, empty) if empty and key not in part else part.pop(key)
            for part, size in zip(lane_parts, sizes, strict=True)
        ]
        joined = np.concatenate(cells)
        return joined if order is None else joined[order]

    return Ops(
        start=start if order is None else start[order],
        end=end if order is None else end[order],
        kind=column("kind"),
        stream=narrow_column(column("streamId")),
        name=narrow_column(column("name")),
        bytes=column("bytes"),
        copy_kind=column("copy_kind"),
        pageable=column("pageable"),
        full_name=narrow_column(column("full_name")),
        call=Index(calls.correlation).places(column("correlationId")).astype(np.int64),
        graph_node=column("graph_node"),
        grid=column("grid"),
        blocks=column("blocks"),
    )
