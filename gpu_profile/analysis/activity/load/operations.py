"""The GPU operations of a report: columns by kind."""

import functools
from collections.abc import Mapping

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    NO_CALL,
    PAGEABLE,
    SET,
)
from gpu_profile.analysis.activity.graph_captures import NO_NODE, NODES
from gpu_profile.analysis.activity.load.graph_classes import class_graphs
from gpu_profile.analysis.arrays.columns import (
    Index,
    is_among,
    list_distinct,
    narrow_column,
    shrink_column,
)
from gpu_profile.analysis.arrays.ends import measure_lengths
from gpu_profile.analysis.arrays.numbers import Numbers
from gpu_profile.analysis.arrays.shapes import ShapeNumbers
from gpu_profile.analysis.arrays.types import IntArray, Places
from gpu_profile.analysis.store.columns import Made
from gpu_profile.analysis.store.database import MISSING, Columns, Database
from gpu_profile.analysis.store.schema import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
)
from gpu_profile.analysis.tables.comm_kernels import comm_kernel, function_name, needs_namespace

Part = Made  # columns of one length, of different types

GRAPH_NAME = "CUDA graph"
COPY_NAMES = {1: "copy HtoD", 2: "copy DtoH", 8: "copy DtoD", 10: "copy PtoP"}
COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
# Columns that only some kinds of operations have; they are 0 for the others.
SPARSE = {
    "bytes": np.int64,
    "copy_kind": np.int8,
    "pageable": np.bool_,
    "graph_node": np.int64,
    "shape": np.int16,
}
GRID, BLOCK = ("gridX", "gridY", "gridZ"), ("blockX", "blockY", "blockZ")
KERNEL_COLUMNS = (*COMMON, "shortName", "demangledName", *GRID, *BLOCK)
MOST_THREADS = 1024
"""Of a block, on all GPUs."""


class CallFinder:
    """Finds each operation's process and call, which takes 5 bytes in place of 20."""

    def __init__(self, indexes: Mapping[int, Index]) -> None:
        self.processes = Numbers()
        self.shapes = ShapeNumbers()
        self._indexes = indexes

    def find(self, rows: Columns) -> Part:
        """The columns `process` (its number), `call`, and those of all kinds of operations."""
        return {
            "start": rows["start"],
            "length": measure_lengths(rows["start"], rows["end"]),
            "process": self.processes.encode(rows["globalPid"]),
            "deviceId": shrink_column(rows["deviceId"]),
            "streamId": shrink_column(rows["streamId"]),
            "call": self.find_calls(rows),
        }

    def find_calls(self, rows: Columns) -> Places:
        """The call of each row, by its process and correlation id; else NO_CALL."""
        processes, correlation = rows["globalPid"], rows["correlationId"]
        call = np.full(len(processes), NO_CALL, np.int32)
        for process in set(list_distinct(processes)) & self._indexes.keys():
            chosen = processes == process
            if chosen.all():
                return self._indexes[process].places(correlation)
            call[chosen] = self._indexes[process].places(correlation[chosen])
        return call


def load_operations(database: Database, finder: CallFinder) -> tuple[list[Part], dict[int, str]]:
    """All GPU operations of a report, one set of columns for each kind, and the texts of their
    names.
    """
    kernels, names = _load_kernels(database, finder)
    parts = [
        kernels,
        _load_copies(database, finder),
        _load_memsets(database, finder),
        _load_graphs(database, finder),
    ]
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


def _load_kernels(database: Database, finder: CallFinder) -> tuple[Part, dict[int, str]]:
    has_grids, has_blocks = (database.has(KERNEL, *sides) for sides in (GRID, BLOCK))

    def narrow(rows: Columns) -> Part:
        short, long = rows["shortName"], rows["demangledName"]
        names = {"name": short, "full_name": np.where(long == MISSING, short, long)}
        narrowed = {key: shrink_column(ids) for key, ids in names.items()}
        shapes = {"shape": finder.shapes.encode(*_list_shapes(rows, has_grids, has_blocks))}
        return {**finder.find(rows), **narrowed, **(shapes if has_grids or has_blocks else {})}

    always = (*COMMON, "shortName")
    columns = [name if name in always else f"{name}?" for name in KERNEL_COLUMNS]
    kernels: Part = {**database.gather(KERNEL, columns, narrow)}
    names = _name_kernels(database, kernels)
    comm_names = [key for key, text in names.items() if comm_kernel(text)]
    communicates = is_among(kernels["name"], comm_names).view(np.int8)
    kernels["kind"] = np.array([COMPUTE, COMMUNICATION], np.int8)[communicates]
    return kernels, database.names(kernels["full_name"]) | names


def _list_shapes(kernels: Columns, has_grids: bool, has_blocks: bool) -> tuple[IntArray, ...]:
    """A number of each kernel's grid, its blocks, and its threads in a block; 0 if not known."""
    unknown = np.zeros(len(kernels["start"]), np.int64)
    x, y, z = (kernels[name] if has_grids else unknown for name in GRID)
    block = (kernels[name] if has_blocks else unknown for name in BLOCK)
    threads = np.clip(functools.reduce(np.multiply, block), 0, MOST_THREADS)
    # A prime in place of a pair: where two grids get one number, kernels of one name count as
    # equal.
    return x * 1009 + y, x * y * z, threads


def _name_kernels(database: Database, kernels: Part) -> dict[int, str]:
    """The texts of the column `name`. Set it to the function's full name where only that shows
    communication ("deep_ep::intranode::dispatch"), for the short name lacks the namespace.
    """
    names = database.names(kernels["name"])
    doubtful = [key for key, text in names.items() if needs_namespace(text)]
    if not doubtful or not database.has(KERNEL, "demangledName"):
        return names
    rows = np.flatnonzero(is_among(kernels["name"], doubtful))
    full = kernels["full_name"][rows]
    texts = {key: function_name(text) for key, text in database.names(full).items()}
    is_comm = is_among(full, [key for key, text in texts.items() if comm_kernel(text)])
    wider = np.promote_types(kernels["name"].dtype, full.dtype)
    kernels["name"] = kernels["name"].astype(wider)
    kernels["name"][rows[is_comm]] = full[is_comm]
    return names | {key: texts[key] for key in list_distinct(full[is_comm])}


def _load_copies(database: Database, finder: CallFinder) -> Part:
    def narrow(rows: Columns) -> Part:
        return {
            **finder.find(rows),
            "name": shrink_column(-1 - rows["copyKind"]),
            "bytes": narrow_column(np.maximum(rows["bytes"], 0)),
            "copy_kind": rows["copyKind"].astype(np.int8),
            "pageable": (rows["srcKind"] == PAGEABLE) | (rows["dstKind"] == PAGEABLE),
        }

    columns = (*COMMON, "bytes", "copyKind", "srcKind?", "dstKind?")
    rows: Part = {**database.gather(MEMCPY, columns, narrow)}
    return {**rows, "kind": np.full(len(rows["start"]), COPY, np.int8)}


def _load_memsets(database: Database, finder: CallFinder) -> Part:
    def narrow(rows: Columns) -> Part:
        return {**finder.find(rows), "bytes": narrow_column(np.maximum(rows["bytes"], 0))}

    rows: Part = {**database.gather(MEMSET, (*COMMON, "bytes"), narrow)}
    return {**rows, **_name_all(rows, SET, -101)}


def _load_graphs(database: Database, finder: CallFinder) -> Part:
    """Replayed CUDA graphs that were traced as a whole."""

    def narrow(rows: Columns) -> Part:
        return {**finder.find(rows), "executable": narrow_column(rows["graphExecId"])}

    rows: Part = {**database.gather(GRAPH, (*COMMON, "graphExecId?"), narrow)}
    classes = class_graphs(rows.pop("executable"), rows["length"])
    none = np.zeros(len(classes), np.int64)
    shape = finder.shapes.encode(classes, none, none)
    return {**rows, "shape": shape, **_name_all(rows, COMPUTE, -102)}


def _name_all(rows: Part, kind: int, name: int) -> Part:
    """The columns `kind` and `name` of operations of one kind and name."""
    count = len(rows["start"])
    return {"kind": np.full(count, kind, np.int8), "name": np.full(count, name, np.int16)}
