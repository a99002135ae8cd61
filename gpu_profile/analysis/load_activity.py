"""Read the activity of each rank of a report."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity import (
    COMMUNICATION,
    COMMUNICATION_NAME,
    COMPUTE,
    COPY,
    NO_CALL,
    PAGEABLE,
    SET,
    Activity,
    Calls,
    Ops,
)
from gpu_profile.analysis.analysis import Scope
from gpu_profile.analysis.database import MISSING, Columns, Database, sort_columns
from gpu_profile.analysis.host_ranges import load_ranges
from gpu_profile.analysis.intervals import Intervals
from gpu_profile.analysis.nccl_payload import message_sizes
from gpu_profile.analysis.ranks import hostname
from gpu_profile.analysis.schema import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    OVERHEAD,
    RUNTIME,
    IntArray,
    pid_of,
    process_of,
)

GRAPH_NAME = "CUDA graph"
COPY_NAMES = {1: "copy HtoD", 2: "copy DtoH", 8: "copy DtoD", 10: "copy PtoP"}
# A process that merely opened a context on a second GPU is not a second rank.
SECOND_DEVICE_SHARE = 0.1


def activities(database: Database, scope: Scope) -> tuple[Activity, ...]:
    """The ranks of one report, in rank order; a process on several GPUs gives one each."""
    operations = _operations(database)
    calls = database.load(
        RUNTIME, "start", "end", "globalTid", "correlationId", "nameId", sort=False
    )
    names = dict(operations.names)
    names.update(database.names(calls["nameId"]))
    caller = process_of(calls["globalTid"])
    models, host = _models(database), hostname(database)
    found: list[Activity] = []
    for process, device in _lanes(operations.columns):
        mine = _calls(_select(calls, caller == process))
        rank = scope.ranks.get(int(pid_of(np.array(process))), len(found))
        ops = _with_messages(
            database, process, _ops(operations.columns, process, device, mine), mine
        )
        ranges = load_ranges(database, process)
        overhead = _overhead(database, process)
        place = models.get((int(pid_of(np.array(process))), device), ""), host
        found.append(Activity(rank, process, device, ops, mine, ranges, overhead, names, *place))
    return tuple(sorted(found, key=lambda activity: (activity.rank, activity.device)))


@dataclass(frozen=True)
class _Operations:
    columns: Columns
    names: dict[int, str]


def _operations(database: Database) -> _Operations:
    """All GPU operations of a report as one set of columns, with the names' texts."""
    common = ("start", "end", "deviceId", "streamId", "correlationId?", "globalPid?")
    kernels = database.load(KERNEL, *common, "shortName", sort=False)
    names = database.names(kernels["shortName"])
    communicates = [key for key, text in names.items() if COMMUNICATION_NAME.match(text)]
    kernels["kind"] = np.where(np.isin(kernels["shortName"], communicates), COMMUNICATION, COMPUTE)
    kernels["name"] = kernels.pop("shortName")
    copies = database.load(MEMCPY, *common, "bytes", "copyKind", "srcKind?", "dstKind?", sort=False)
    copies["kind"] = np.full(len(copies["start"]), COPY)
    # Names of our own get negative ids, which nsys never gives.
    copies["name"] = -1 - copies["copyKind"]
    sets = database.load(MEMSET, *common, "bytes", sort=False)
    graphs = database.load(GRAPH, *common, sort=False)
    sets["kind"], sets["name"] = (np.full(len(sets["start"]), value) for value in (SET, -101))
    graphs["kind"], graphs["name"] = (
        np.full(len(graphs["start"]), value) for value in (COMPUTE, -102)
    )
    names.update({-1 - kind: COPY_NAMES.get(kind, "copy") for kind in range(100)})
    names.update({-101: "memset", -102: GRAPH_NAME})
    return _Operations(_stack(kernels, copies, sets, graphs), names)


def _stack(*parts: Columns) -> Columns:
    """The rows of all parts under one set of columns, in time order; absent cells MISSING."""
    start, end = (np.concatenate([part[key] for part in parts]) for key in ("start", "end"))
    order = np.lexsort((end, start))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    stacked: Columns = {}
    # Each row is written once, to its place: a million kernels have no bytes and no copy kind.
    for key in dict.fromkeys(key for part in parts for key in part):
        stacked[key] = np.full(len(order), MISSING)
        first = 0
        for part in parts:
            last = first + len(part["start"])
            if key in part:
                stacked[key][place[first:last]] = part[key]
            first = last
    return stacked


def _lanes(operations: Columns) -> Iterator[tuple[int, int]]:
    """(process, device) pairs that did real work, by process id, then device."""
    duration = operations["end"] - operations["start"]
    for process in np.unique(operations["globalPid"]):
        mine = operations["globalPid"] == process
        devices, index = np.unique(operations["deviceId"][mine], return_inverse=True)
        busy = np.bincount(index, weights=duration[mine])
        for device in devices[busy >= SECOND_DEVICE_SHARE * busy.max()]:
            yield int(process), int(device)


def _select(columns: Columns, rows: NDArray[np.bool_]) -> Columns:
    if rows.all():  # one rank a report: nothing to copy
        return columns
    return {key: values[rows] for key, values in columns.items()}


def _calls(columns: Columns) -> Calls:
    ordered = sort_columns(columns, "start", "end")
    return Calls(*(ordered[k] for k in ("start", "end", "globalTid", "correlationId", "nameId")))


def _ops(operations: Columns, process: int, device: int, calls: Calls) -> Ops:
    rows = (operations["globalPid"] == process) & (operations["deviceId"] == device)
    mine = _select(operations, rows)
    return Ops(
        start=mine["start"],
        end=mine["end"],
        kind=mine["kind"],
        stream=mine["streamId"],
        name=mine["name"],
        bytes=np.maximum(mine["bytes"], 0),
        copy_kind=mine["copyKind"],
        pageable=(mine["srcKind"] == PAGEABLE) | (mine["dstKind"] == PAGEABLE),
        call=_match(mine["correlationId"], calls.correlation),
    )


def _with_messages(database: Database, process: int, ops: Ops, calls: Calls) -> Ops:
    """`bytes` of NCCL's kernels from its own ranges, where the report has their payloads."""
    rows = np.flatnonzero((ops.kind == COMMUNICATION) & (ops.call != NO_CALL))
    call = ops.call[rows]
    size = ops.bytes.copy()
    size[rows] = message_sizes(database, process, calls.thread[call], calls.start[call])
    return replace(ops, bytes=size)


def _match(wanted: IntArray, correlation: IntArray) -> IntArray:
    """Index of the call with each correlation id (unique within a process), or NO_CALL."""
    if not len(correlation):
        return np.full(len(wanted), NO_CALL)
    order = np.argsort(correlation, kind="stable")
    place = np.minimum(np.searchsorted(correlation[order], wanted), len(order) - 1)
    return np.where(correlation[order][place] == wanted, order[place], NO_CALL)


def _models(database: Database) -> dict[tuple[int, int], str]:
    """The GPU's model by process id and that process's number of the device."""
    rows = database.rows("TARGET_INFO_GPU", "id", "name")
    models = {number: str(name) for number, name in rows}
    devices = database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
    return {(int(str(p)), int(str(cuda))): models.get(gpu, "") for p, cuda, gpu in devices}


def _overhead(database: Database, process: int) -> Intervals:
    """When the profiler itself held this process up."""
    rows = database.load(OVERHEAD, "start", "end", "globalTid?", sort=False)
    mine = process_of(rows["globalTid"]) == process
    return Intervals.union(rows["start"][mine], rows["end"][mine])
