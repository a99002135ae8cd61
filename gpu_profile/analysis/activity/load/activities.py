"""Read the activity of each rank of a report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMMUNICATION,
    NO_CALL,
    Activity,
    Calls,
    Ops,
)
from gpu_profile.analysis.activity.comm.calls import CommCalls, comm_calls, kinds_of
from gpu_profile.analysis.activity.comm.nccl_payload import load_nccl_calls
from gpu_profile.analysis.activity.graph_captures import load_graph_captures
from gpu_profile.analysis.activity.load.calls import load_calls, make_no_calls
from gpu_profile.analysis.activity.load.lanes import list_lanes, make_ops, select_lane
from gpu_profile.analysis.activity.load.operations import CallFinder, Part, load_operations
from gpu_profile.analysis.activity.nvtx_ranges import load_ranges
from gpu_profile.analysis.arrays.columns import encode_column, narrow_column
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import Places
from gpu_profile.analysis.store.cells import integer, text
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.store.files.recording import advise_export
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import (
    CUDA_EVENT,
    OVERHEAD,
    SYNCHRONIZATION,
    pid_of,
    process_of,
)
from gpu_profile.analysis.store.target import read_hostname
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.errors import ReportError

_A_YEAR_NS = 366 * 86_400 * 10**9


def load_activities(database: Database, scope: Scope) -> tuple[Activity, ...]:
    """The activities of one report, in rank order; one for each device of a process on several
    GPUs.
    """
    # The calls first: an operation keeps the row of its call in place of its correlation id.
    calls, indexes = load_calls(database)
    finder = CallFinder(indexes)
    parts, texts = load_operations(database, finder)
    marker_calls, processes = _find_marker_calls(database, finder), finder.processes.values
    indexes.clear()
    _check_times(database, parts)
    called = {code for of_process in calls.values() for code in of_process.name_ids}
    names = texts | database.names(np.array(sorted(called), np.int64))
    models, host = _load_gpu_models(database), read_hostname(database)
    activities_by_rank: list[Activity] = []
    lanes = list_lanes(parts, processes)
    for process, device in lanes:
        process_calls = calls[process] if process in calls else make_no_calls()
        rank = scope.ranks.get(int(pid_of(np.array(process))), len(activities_by_rank))
        lane_parts = select_lane(parts, processes.tolist().index(process), device)
        if (process, device) == lanes[-1]:
            parts.clear()  # make_ops() frees each column after its use
        ops = make_ops(lane_parts, finder.shapes.values)
        comm = _comm_calls(database, (process, device, rank), ops, process_calls, names)
        ops = _with_sizes(ops, comm)
        ranges = load_ranges(database, process)
        overhead = _load_profiler_overhead(database, process)
        place = models.get((int(pid_of(np.array(process))), device), ""), host
        facts = (rank, process, device, ops, process_calls, ranges, overhead, names, *place)
        captures = load_graph_captures(database, process)
        activity = Activity(*facts, comm=comm, captures=captures, marker_calls=marker_calls)
        activities_by_rank.append(activity)
    return in_order(activities_by_rank)


def _check_times(database: Database, parts: Sequence[Part]) -> None:
    """Raise ReportError if an operation has no start, no end, ends before it starts, or is a year
    away from another one.

    No GPU records one: the bytes are damaged, and sums over states would not fill the time.
    """
    for part in parts:
        if np.any(part["start"] == MISSING) or _ends_early(part):
            what = f"{database.path} is damaged: an operation of the GPU ends before it starts"
            raise ReportError(what, advise_export(database.path))
    filled = [part for part in parts if len(part["start"])]
    first = min((int(part["start"].min()) for part in filled), default=0)
    if any(int((part["start"] + part["length"]).max()) - first > _A_YEAR_NS for part in filled):
        what = f"{database.path} is damaged: its operations of the GPU are more than a year apart"
        raise ReportError(what, advise_export(database.path))


def _find_marker_calls(database: Database, finder: CallFinder) -> dict[str, Places]:
    columns = ("correlationId", "globalPid")
    return {
        table: finder.find_calls(database.load(table, *columns, sort=False))
        for table in (CUDA_EVENT, SYNCHRONIZATION)
    }


def _ends_early(part: Part) -> bool:
    length = part["length"]
    # A missing end is the least number: only the sum tells it, for the difference overflows.
    return length.dtype == np.int64 and bool(np.any(part["start"] + length < part["start"]))


def in_order(activities_unsorted: Sequence[Activity]) -> tuple[Activity, ...]:
    """Sort by rank and device, and set the leader of each process."""
    return tuple(
        sorted(_led(activities_unsorted), key=lambda activity: (activity.rank, activity.device))
    )


def _led(members: Sequence[Activity]) -> Iterator[Activity]:
    leaders: dict[int, Activity] = {}
    devices = Counter(activity.process for activity in members)
    for activity in sorted(members, key=lambda activity: -len(activity.ops.start)):
        if devices[activity.process] > 1:
            activity = replace(activity, shares_process=True)
        leader = leaders.setdefault(activity.process, activity)
        yield activity if leader is activity else replace(activity, leader=leader)


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
    kernel_kinds = kinds_of([names[code] for code in place.tolist()])[codes]
    call = ops.call[rows]
    has_call = call != NO_CALL
    thread, launched = (np.full(len(rows), NO_CALL) for _ in range(2))
    thread[has_call] = calls.thread_of(call[has_call])
    launched[has_call] = calls.start[call[has_call]]
    return comm_calls(
        load_nccl_calls(database, process), kernel_kinds, thread, launched, device, rank
    )


def _with_sizes(ops: Ops, comm: CommCalls) -> Ops:
    """The operations with the `bytes` of communication kernels set from `comm`."""
    moved = narrow_column(comm.bytes)
    size = ops.bytes.astype(np.promote_types(ops.bytes.dtype, moved.dtype))
    size[ops.kind == COMMUNICATION] = moved
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
