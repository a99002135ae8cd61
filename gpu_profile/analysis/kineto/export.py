"""Export a trace of torch.profiler to SQLite in nsys' schema, which everything else reads.

What Kineto does not record is absent: system calls, waits of the host, NVTX ranges of libraries.
The thread that starts a step is that of its `ProfilerStep#` annotation.
"""

import functools
import gzip
import itertools
import json
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from gpu_profile.analysis.kineto.annotations import MARKS, TraceMarks
from gpu_profile.analysis.kineto.collectives import SCHEMA_ENTRIES, describe_collective
from gpu_profile.analysis.kineto.event_waits import EventWaits
from gpu_profile.analysis.kineto.events import AGAIN, Event, parse_ns, read_events
from gpu_profile.analysis.kineto.source import SOURCE
from gpu_profile.analysis.store.schema import (
    CUDA_EVENT,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    NVTX_DOMAIN,
    NVTX_PUSH_POP,
    RUNTIME,
    SYNCHRONIZATION,
)
from gpu_profile.errors import ReportError
from gpu_profile.formats.function_names import split_name

SCHEMA = "3.20.3"
"""Of nsys 2025.3, whose tables are written."""
_ROWS_AT_ONCE = 20_000
_COMMON = "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT"
_TABLES = {
    KERNEL: f"{_COMMON}, demangledName INT, shortName INT, registersPerThread INT, gridX INT,"
    " gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT, staticSharedMemory INT,"
    " dynamicSharedMemory INT, globalPid INT",
    MEMCPY: f"{_COMMON}, bytes INT, copyKind INT, srcKind INT, dstKind INT, globalPid INT",
    MEMSET: f"{_COMMON}, bytes INT, memKind INT, globalPid INT",
    SYNCHRONIZATION: f"{_COMMON}, eventSyncId INT, globalPid INT",
    CUDA_EVENT: f"{_COMMON}, eventSyncId INT, globalPid INT",
    RUNTIME: "start INT, end INT, correlationId INT, nameId INT, globalTid INT",
    NVTX: "start INT, end INT, eventType INT, domainId INT, textId INT, globalTid INT,"
    " endGlobalTid INT, text TEXT, binaryData BLOB, int64Value INT",
}
_FACTS = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "META_DATA_CAPTURE": "name TEXT, value TEXT",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId INT, schemaId INT, name TEXT, offset INT",
    "TARGET_INFO_GPU": "id INT, name TEXT, smCount INT",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INT, cudaId INT, pid INT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INT",
}
_COPY = re.compile(r"Memcpy (\w+)(?: \((\w+) -> (\w+)\))?")
_COPY_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
_MEMORY_KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4}
"""CUPTI's numbers, as nsys writes them."""


def export_trace(path: Path, output: Path) -> None:
    """Write the trace's export to `output`, which must not exist.

    Raises ReportError for a file that is no trace, is damaged or truncated, or holds no event of a
    GPU, a CUDA call or an annotation.
    """
    with closing(sqlite3.connect(output)) as database:
        writer = _Writer(database)
        frame = bytearray()
        try:
            with _open(path) as file:
                for event in read_events(file, path, frame):
                    writer.add(event)
            facts = json.loads(frame)
        except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
            raise ReportError(f"{path} is damaged: {error}", AGAIN) from error
        if not writer.has_events:
            raise ReportError(f"{path} holds no GPU operation, CUDA call or annotation", AGAIN)
        writer.finish(facts if isinstance(facts, dict) else {})


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


@dataclass
class _Writer:
    """Collects rows, and writes them in blocks. Times are absolute until finish()."""

    database: sqlite3.Connection
    rows: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    """How many calls and annotations each process has."""
    collectives: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    """NCCL's call and its payload by the correlation of the kernel's launch."""
    waits: EventWaits = field(default_factory=EventWaits)
    marks: TraceMarks = field(init=False)
    start: int | None = None

    def __post_init__(self) -> None:
        self.database.execute("PRAGMA journal_mode=OFF")
        self.database.execute("PRAGMA synchronous=OFF")
        self.marks = TraceMarks(self.database)
        for table, columns in {**_TABLES, **_FACTS}.items():
            self.database.execute(f"CREATE TABLE {table} ({columns})")

    @property
    def has_events(self) -> bool:
        return self.start is not None

    def add(self, event: Event) -> None:
        start = parse_ns(event.ts)
        end = start + parse_ns(event.dur)
        self.start = start if self.start is None else min(self.start, start)
        if event.kind == "module":
            self.marks.add_call(self.thread(event), start, end, event.name)
            return
        table, cells = _MAKERS[event.kind](self, event)
        rows = self.rows.setdefault(table, [])
        rows.append((start, end, *cells))
        if len(rows) >= _ROWS_AT_ONCE:
            self._write(table)

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names) + 1)

    def thread(self, event: Event) -> int:
        """The globalTid of a call or an annotation."""
        pid, tid = (value if isinstance(value, int) else 0 for value in (event.pid, event.tid))
        self.pids[pid] = self.pids.get(pid, 0) + 1
        # nsys' layout: 24 bits of the thread, 24 of the process, then the host's.
        return (1 << 48) | (pid & 0xFFFFFF) << 24 | (tid & 0xFFFFFF)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write what is left: times from the first event on, and the facts of the trace."""
        for table in list(self.rows):
            self._write(table)
        self._write_collectives()
        self._write_marks()
        self._write_recorded_events()
        pid = max(self.pids, key=self.pids.__getitem__, default=0) & 0xFFFFFF
        origin, process = self.start or 0, (1 << 48) | pid << 24
        for table in _TABLES:
            owner = ", globalPid = ?" if "globalPid" in _TABLES[table] else ""
            values = (origin, origin, process) if owner else (origin, origin)
            self.database.execute(
                f"UPDATE {table} SET start = start - ?, end = end - ?{owner}", values
            )
            if not self.database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
                self.database.execute(f"DROP TABLE {table}")  # as nsys has it
        facts_by_table = dict(self._list_facts(facts, origin, pid))
        for table, rows in facts_by_table.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self.database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        self.database.commit()

    def _write(self, table: str) -> None:
        rows = self.rows.pop(table)
        marks = ", ".join("?" * len(rows[0]))
        columns = ", ".join(
            column.split()[0] for column in _TABLES[table].split(", ")[: len(rows[0])]
        )
        self.database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)

    def _write_collectives(self) -> None:
        """Write a range of NCCL around the call that launched each kernel of a collective."""
        calls = self.database.execute(
            f"SELECT start, end, correlationId, globalTid FROM {RUNTIME}"
        ).fetchall()
        rows = [
            (start, end, NVTX_PUSH_POP, 1, self.name(call), thread, None, None, payload)
            for start, end, correlation, thread in calls
            for call, payload in (self.collectives.get(correlation, ("", b"")),)
            if call
        ]
        if rows:
            domain = (rows[0][0], None, NVTX_DOMAIN, 1, None, rows[0][5], None, "NCCL", None)
            self.rows[NVTX] = [domain, *rows]
            self._write(NVTX)

    def _write_marks(self) -> None:
        """Write the marks' domain and the calls of modules, and make marked steps its ranges."""
        ranges = self.marks.list_rows(self.start or 0, self.name)
        while rows := list(itertools.islice(ranges, _ROWS_AT_ONCE)):
            self.rows[NVTX] = rows
            self._write(NVTX)
        self.database.executemany(
            f"UPDATE {NVTX} SET domainId = {MARKS}, int64Value = ?, textId = ? WHERE textId = ?",
            [(number, self.name("step"), key) for number, key in self.marks.list_steps(self.names)],
        )

    def _write_recorded_events(self) -> None:
        """Write what the waits of streams say of the events; no wait at all without enough."""
        if not self.waits.are_known:
            self.database.execute(f"DELETE FROM {SYNCHRONIZATION}")
            return
        self.rows[CUDA_EVENT] = self.waits.list_rows(self.start or 0)
        self._write(CUDA_EVENT)

    def _list_facts(
        self, facts: Mapping[str, Any], origin: int, pid: int
    ) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
        yield "StringIds", [(number, text) for text, number in self.names.items()]
        if self.collectives:
            yield "NVTX_PAYLOAD_SCHEMA_ENTRIES", list(SCHEMA_ENTRIES)
        yield "META_DATA_EXPORT", [("EXPORT_SCHEMA_VERSION", SCHEMA), SOURCE]
        job = facts.get("distributedInfo")
        job = job if isinstance(job, dict) else {}
        variables = (("RANK", job.get("rank")), ("WORLD_SIZE", job.get("world_size")))
        known = (f"{name}={value}" for name, value in variables if isinstance(value, int))
        yield "META_DATA_CAPTURE", [("ENVIRONMENT_VARIABLE", setting) for setting in known]
        devices = _list_devices(facts)
        yield "TARGET_INFO_GPU", devices
        yield "TARGET_INFO_CUDA_DEVICE", [(number, number, pid) for number, *_ in devices]
        base = facts.get("baseTimeNanoseconds", 0)
        yield "TARGET_INFO_SESSION_START_TIME", [(origin + (base if isinstance(base, int) else 0),)]


def _list_devices(facts: Mapping[str, Any]) -> list[tuple[object, ...]]:
    """The number, the model and the multiprocessors of each GPU."""
    gpus = facts.get("deviceProperties")
    devices = gpus if isinstance(gpus, list) else ()
    numbered = (gpu for gpu in devices if isinstance(gpu, dict) and isinstance(gpu.get("id"), int))
    rows = ((gpu["id"], str(gpu.get("name", "")), gpu.get("numSms")) for gpu in numbered)
    return [(*row, count if isinstance(count, int) else None) for *row, count in rows]


Row = tuple[str, tuple[object, ...]]


def _place(event: Event) -> tuple[object, ...]:
    """deviceId, contextId, streamId, correlationId; older traces name the first two by pid, tid."""
    args = event.args
    device = event.pid if args.device < 0 else args.device
    stream = event.tid if args.stream < 0 else args.stream
    return device, args.context, stream, args.correlation


def _make_kernel(writer: _Writer, event: Event) -> Row:
    args = event.args
    names = writer.name(event.name), writer.name(_shorten(event.name))
    if collective := describe_collective(args):
        writer.collectives[args.correlation] = collective
    launch = (args.registers, *args.grid, *args.block, 0, args.shared)
    return KERNEL, (*_place(event), *names, *launch)


@functools.cache
def _shorten(name: str) -> str:
    """The function alone: `gemm` of `void ns::gemm<4>(int)`."""
    return split_name(name)[0] or name


def _make_copy(writer: _Writer, event: Event) -> Row:
    match = _COPY.match(event.name)
    kind, source, target = match.groups() if match else ("", "", "")
    kinds = (_COPY_KINDS.get(kind, 0), _MEMORY_KINDS.get(source, 2), _MEMORY_KINDS.get(target, 2))
    return MEMCPY, (*_place(event), event.args.bytes, *kinds)


def _make_memset(writer: _Writer, event: Event) -> Row:
    return MEMSET, (*_place(event), event.args.bytes, 2)


def _make_sync(writer: _Writer, event: Event) -> Row:
    writer.waits.add(event)
    return SYNCHRONIZATION, (*_place(event), event.args.waits_for)


def _make_call(writer: _Writer, event: Event) -> Row:
    return RUNTIME, (event.args.correlation, writer.name(event.name), writer.thread(event))


def _make_range(writer: _Writer, event: Event) -> Row:
    thread = writer.thread(event)
    domain, text = writer.marks.split_name(event.name, thread)
    return NVTX, (NVTX_PUSH_POP, domain, writer.name(text), thread)


_MAKERS: Mapping[str, Callable[[_Writer, Event], Row]] = {
    "kernel": _make_kernel,
    "copy": _make_copy,
    "memset": _make_memset,
    "call": _make_call,
    "sync": _make_sync,
    "range": _make_range,
}
