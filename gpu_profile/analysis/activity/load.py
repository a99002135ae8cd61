"""Read the activity of each rank of a report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    COMPUTE,
    COPY,
    NO_CALL,
    PAGEABLE,
    SET,
    Activity,
    Calls,
    Ops,
)
from gpu_profile.analysis.activity.comm.calls import CommCalls, comm_calls, kinds_of
from gpu_profile.analysis.activity.comm.nccl_payload import load_nccl_calls
from gpu_profile.analysis.activity.graph_captures import NO_NODE, NODES, load_graph_captures
from gpu_profile.analysis.activity.nvtx_ranges import load_ranges
from gpu_profile.analysis.arrays.columns import (
    Index,
    encode_column,
    is_among,
    list_distinct,
    time_order,
)
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.store.cells import integer, text
from gpu_profile.analysis.store.database import MISSING, Database, sort_columns
from gpu_profile.analysis.store.gzip_file import AGAIN
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    OVERHEAD,
    RUNTIME,
    pid_of,
    process_of,
)
from gpu_profile.analysis.store.target import read_hostname
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.comm_kernels import comm_kernel, function_name, needs_namespace
from gpu_profile.errors import ReportError

Part = dict[str, Any]  # columns of one length, of different types

GRAPH_NAME = "CUDA graph"
COPY_NAMES = {1: "copy HtoD", 2: "copy DtoH", 8: "copy DtoD", 10: "copy PtoP"}
# A process that merely opened a context on a second GPU is not a second rank.
SECOND_DEVICE_SHARE = 0.1


def load_activities(database: Database, scope: Scope) -> tuple[Activity, ...]:
    """The activities of one report, in rank order; one for each device of a process on several
    GPUs.
    """
    parts, texts = _load_operations(database)
    _check_times(database, parts)
    calls = database.load(
        RUNTIME, "start", "end", "globalTid", "correlationId", "nameId", sort=False
    )
    names = texts | database.names(calls["nameId"])
    caller = process_of(calls["globalTid"])
    models, host = _load_gpu_models(database), read_hostname(database)
    activities_by_rank: list[Activity] = []
    for process, device in _list_lanes(parts):
        process_calls = _make_calls(_select_rows(calls, caller == process))
        rank = scope.ranks.get(int(pid_of(np.array(process))), len(activities_by_rank))
        ops = _make_ops(parts, process, device, process_calls)
        comm = _comm_calls(database, (process, device, rank), ops, process_calls, names)
        ops = _with_sizes(ops, comm)
        ranges = load_ranges(database, process)
        overhead = _load_profiler_overhead(database, process)
        place = models.get((int(pid_of(np.array(process))), device), ""), host
        facts = (rank, process, device, ops, process_calls, ranges, overhead, names, *place)
        captures = load_graph_captures(database, process)
        activities_by_rank.append(Activity(*facts, comm=comm, captures=captures))
    return in_order(activities_by_rank)


def _check_times(database: Database, parts: Sequence[Part]) -> None:
    """Raise ReportError if an operation has no start, no end, or ends before it starts.

    No GPU records one: the bytes are damaged, and sums over states would not fill the time.
    """
    for part in parts:
        if np.any(part["start"] == MISSING) or np.any(part["end"] < part["start"]):
            what = f"{database.path} is damaged: an operation of the GPU ends before it starts"
            raise ReportError(what, AGAIN)


def in_order(activities_unsorted: Sequence[Activity]) -> tuple[Activity, ...]:
    """Sort by rank and device, and set the leader of each process."""
    return tuple(
        sorted(_led(activities_unsorted), key=lambda activity: (activity.rank, activity.device))
    )


def _led(members: Sequence[Activity]) -> Iterator[Activity]:
    leaders: dict[int, Activity] = {}
    devices = Counter(activity.process for activity in members)
    for activity in sorted(members, key=lambda one: -len(one.ops.start)):
        if devices[activity.process] > 1:
            activity = replace(activity, shares_process=True)
        leader = leaders.setdefault(activity.process, activity)
        yield activity if leader is activity else replace(activity, leader=leader)


COMMON = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
# Columns that only some kinds of operations have; they are 0 for the others.
SPARSE = {
    "bytes": np.int64,
    "copy_kind": np.int8,
    "pageable": np.bool_,
    "graph_node": np.int64,
}


def _load_operations(database: Database) -> tuple[list[Part], dict[int, str]]:
    """All GPU operations of a report, one set of columns for each kind, and the texts of their
    names.
    """
    kernels: Part = {**database.load(KERNEL, *COMMON, "shortName", "demangledName?", sort=False)}
    kernels["full_name"] = np.where(
        kernels["demangledName"] == MISSING, kernels["shortName"], kernels["demangledName"]
    )
    names = _name_kernels(database, kernels)
    talk = [key for key, text in names.items() if comm_kernel(text)]
    names = database.names(kernels["full_name"]) | names
    communicates = is_among(kernels["name"], talk).view(np.int8)
    kernels["kind"] = np.array([COMPUTE, COMMUNICATION], np.int8)[communicates]
    parts = [kernels, _load_copies(database), *_load_memsets_and_graphs(database)]
    for part in parts[1:]:
        part["full_name"] = part["name"]
    if database.has(NODES):
        for part, table in zip(parts, (KERNEL, MEMCPY, MEMSET), strict=False):
            nodes = database.load(table, "start", "graphNodeId?", sort=False)["graphNodeId"]
            part["graph_node"] = np.maximum(nodes, NO_NODE)
    # Our own names ("memset") get negative ids, which nsys never uses.
    names.update({-1 - kind: COPY_NAMES.get(kind, "copy") for kind in range(100)})
    names.update({-101: "memset", -102: GRAPH_NAME})
    return parts, names


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
    talk = is_among(full_names[rows], [key for key, text in texts.items() if comm_kernel(text)])
    kernels["name"] = kernels["shortName"].copy()
    kernels["name"][rows[talk]] = full_names[rows[talk]]
    return names | {key: texts[key] for key in list_distinct(full_names[rows[talk]])}


def _load_copies(database: Database) -> Part:
    own = ("bytes", "copyKind", "srcKind?", "dstKind?")
    rows: Part = {**database.load(MEMCPY, *COMMON, *own, sort=False)}
    rows["kind"] = np.full(len(rows["start"]), COPY, np.int8)
    rows["name"] = -1 - rows["copyKind"]
    rows["bytes"] = np.maximum(rows["bytes"], 0)
    rows["copy_kind"] = rows["copyKind"].astype(np.int8)
    rows["pageable"] = (rows["srcKind"] == PAGEABLE) | (rows["dstKind"] == PAGEABLE)
    return rows


def _load_memsets_and_graphs(database: Database) -> Iterator[Part]:
    """Memsets and replayed CUDA graphs, one set of columns each."""
    kinds = ((MEMSET, ("bytes",), SET, -101), (GRAPH, (), COMPUTE, -102))
    for table, own, kind, name in kinds:
        rows: Part = {**database.load(table, *COMMON, *own, sort=False)}
        size = len(rows["start"])
        rows["kind"], rows["name"] = np.full(size, kind, np.int8), np.full(size, name)
        rows |= {key: np.maximum(rows[key], 0) for key in own}
        yield rows


def _list_lanes(parts: Sequence[Part]) -> list[tuple[int, int]]:
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


def _select_rows(columns: Part, rows: NDArray[np.bool_]) -> Part:
    if rows.all():  # one rank in the report: no copy of the columns
        return columns
    return {key: values[rows] for key, values in columns.items()}


def _make_calls(columns: Part) -> Calls:
    ordered = sort_columns(columns, "start", "end")
    return Calls(*(ordered[k] for k in ("start", "end", "globalTid", "correlationId", "nameId")))


def _make_ops(parts: Sequence[Part], process: int, device: int, calls: Calls) -> Ops:
    """The operations of one process on one device, of all kinds, in time order."""
    lane_parts = [
        _select_rows(part, (part["globalPid"] == process) & (part["deviceId"] == device))
        for part in parts
    ]
    start, end = (np.concatenate([part[key] for part in lane_parts]) for key in ("start", "end"))
    order = time_order(start, end)

    def column(key: str) -> Any:  # noqa: ANN401
        empty = SPARSE.get(key)
        if empty and not any(key in part for part in lane_parts):
            return np.zeros(len(start), empty)
        cells = [
            np.zeros(len(part["start"]), empty) if empty and key not in part else part[key]
            for part in lane_parts
        ]
        joined = np.concatenate(cells)
        return joined if order is None else joined[order]

    return Ops(
        start=start if order is None else start[order],
        end=end if order is None else end[order],
        kind=column("kind"),
        stream=column("streamId"),
        name=column("name"),
        bytes=column("bytes"),
        copy_kind=column("copy_kind"),
        pageable=column("pageable"),
        full_name=column("full_name"),
        call=Index(calls.correlation).places(column("correlationId")).astype(np.int64),
        graph_node=column("graph_node"),
    )


def _comm_calls(
    database: Database,
    owner: tuple[int, int, int],
    ops: Ops,
    calls: Calls,
    names: Mapping[int, str],
) -> CommCalls:
    """The communicator, kind and bytes of each communication kernel of an owner (process, device,
    rank).
    """
    process, device, rank = owner
    rows = np.flatnonzero(ops.kind == COMMUNICATION)
    codes, place = encode_column(ops.name[rows])
    named = kinds_of([names[code] for code in place.tolist()])[codes]
    call = ops.call[rows]
    has_call = call != NO_CALL
    thread, launched = (np.full(len(rows), NO_CALL) for _ in range(2))
    thread[has_call], launched[has_call] = calls.thread[call[has_call]], calls.start[call[has_call]]
    return comm_calls(load_nccl_calls(database, process), named, thread, launched, device, rank)


def _with_sizes(ops: Ops, comm: CommCalls) -> Ops:
    """The operations with the `bytes` of communication kernels set from `comm`."""
    size = ops.bytes.copy()
    size[ops.kind == COMMUNICATION] = comm.bytes
    return replace(ops, bytes=size)


def _load_gpu_models(database: Database) -> dict[tuple[int, int], str]:
    """The model of the GPU by (process id, the process's CUDA device number)."""
    models = dict(read_records(database, "TARGET_INFO_GPU", integer("id"), text("name")))
    columns = integer("pid"), integer("cudaId"), integer("gpuId")
    devices = read_records(database, "TARGET_INFO_CUDA_DEVICE", *columns)
    return {(pid, cuda): models.get(gpu, "") for pid, cuda, gpu in devices}


def _load_profiler_overhead(database: Database, process: int) -> Intervals:
    """The time in which the profiler held up this process (table PROFILER_OVERHEAD)."""
    rows = database.load(OVERHEAD, "start", "end", "globalTid?", sort=False)
    of_process = process_of(rows["globalTid"]) == process
    return Intervals.union(rows["start"][of_process], rows["end"][of_process])
