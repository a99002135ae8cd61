"""Export a trace of torch.profiler to SQLite in nsys' schema, which everything else reads.

What Kineto does not record is absent: system calls, waits of the host, NVTX ranges of libraries.
The thread that starts a step is that of its `ProfilerStep#` annotation.
"""

import gzip
import itertools
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from gpu_profile.analysis.kineto.annotations import MARKS, TraceMarks
from gpu_profile.analysis.kineto.collectives import SCHEMA_ENTRIES
from gpu_profile.analysis.kineto.events import AGAIN, Event, parse_ns, read_events
from gpu_profile.analysis.kineto.rows import MAKERS, Collected
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

SCHEMA = "3.20.3"
"""The version of nsys 2025.3, whose tables are written."""
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
            if not writer.has_events:
                what = f"{path} holds no GPU operation, CUDA call or annotation"
                raise ReportError(what, "Record it with ProfilerActivity.CUDA")
            writer.finish(facts if isinstance(facts, dict) else {})
        except OverflowError as error:  # SQLite's numbers have 64 bits
            raise ReportError(f"{path} is damaged: a number is too large", AGAIN) from error
        except (EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
            raise ReportError(f"{path} is damaged: {error}", AGAIN) from error


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


@dataclass
class _Writer:
    """Collects rows, and writes them in blocks. Times are absolute until finish()."""

    database: sqlite3.Connection
    rows: dict[str, list[tuple[object, ...]]] = field(default_factory=dict)
    collected: Collected = field(init=False)
    start: int | None = None

    def __post_init__(self) -> None:
        self.database.execute("PRAGMA journal_mode=OFF")
        self.database.execute("PRAGMA synchronous=OFF")
        self.collected = Collected(TraceMarks(self.database))
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
            self.collected.marks.add_call(self.collected.thread(event), start, end, event.name)
            return
        table, cells = MAKERS[event.kind](self.collected, event)
        rows = self.rows.setdefault(table, [])
        rows.append((start, end, *cells))
        if len(rows) >= _ROWS_AT_ONCE:
            self._write(table)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write what is left: times from the first event on, and the facts of the trace."""
        for table in list(self.rows):
            self._write(table)
        self._write_collectives()
        self._write_marks()
        self._write_recorded_events()
        pid = max(self.collected.pids, key=self.collected.pids.__getitem__, default=0) & 0xFFFFFF
        origin, process = self.start or 0, (1 << 48) | pid << 24
        for table in _TABLES:
            owner = ", globalPid = ?" if "globalPid" in _TABLES[table] else ""
            values = (origin, origin, process) if owner else (origin, origin)
            self.database.execute(
                f"UPDATE {table} SET start = start - ?, end = end - ?{owner}", values
            )
            if not self.database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
                self.database.execute(f"DROP TABLE {table}")  # as nsys has it
        for table, rows in self._list_facts(facts, origin, pid):
            self._insert(table, rows)
        self.database.commit()

    def _write(self, table: str) -> None:
        self._insert(table, self.rows.pop(table))

    def _insert(self, table: str, rows: list[tuple[object, ...]]) -> None:
        """Insert rows; a row may lack the last columns of its table."""
        if not rows:
            return
        declarations = {**_TABLES, **_FACTS}[table].split(", ")[: len(rows[0])]
        columns = ", ".join(declaration.split()[0] for declaration in declarations)
        places = ", ".join("?" * len(rows[0]))
        self.database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)

    def _write_collectives(self) -> None:
        """Write a range of NCCL around the call that launched each kernel of a collective."""
        calls = self.database.execute(
            f"SELECT start, end, correlationId, globalTid FROM {RUNTIME}"
        ).fetchall()
        rows = [
            (start, end, NVTX_PUSH_POP, 1, self.collected.name(call), thread, None, None, payload)
            for start, end, correlation, thread in calls
            for call, payload in (self.collected.collectives.get(correlation, ("", b"")),)
            if call
        ]
        if rows:
            domain = (rows[0][0], None, NVTX_DOMAIN, 1, None, rows[0][5], None, "NCCL", None)
            self.rows[NVTX] = [domain, *rows]
            self._write(NVTX)

    def _write_marks(self) -> None:
        """Write the marks' domain and the calls of modules, and make marked steps its ranges."""
        ranges = self.collected.marks.list_rows(self.start or 0, self.collected.name)
        while rows := list(itertools.islice(ranges, _ROWS_AT_ONCE)):
            self.rows[NVTX] = rows
            self._write(NVTX)
        self.database.executemany(
            f"UPDATE {NVTX} SET domainId = {MARKS}, int64Value = ?, textId = ? WHERE textId = ?",
            [
                (number, self.collected.name("step"), key)
                for number, key in self.collected.marks.list_steps(self.collected.names)
            ],
        )

    def _write_recorded_events(self) -> None:
        """Write what the waits of streams say of the events; no wait at all without enough."""
        if not self.collected.waits.are_known:
            self.database.execute(f"DELETE FROM {SYNCHRONIZATION}")
            return
        self.rows[CUDA_EVENT] = self.collected.waits.list_rows(self.start or 0)
        self._write(CUDA_EVENT)

    def _list_facts(
        self, facts: Mapping[str, Any], origin: int, pid: int
    ) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
        yield "StringIds", [(number, text) for text, number in self.collected.names.items()]
        if self.collected.collectives:
            yield "NVTX_PAYLOAD_SCHEMA_ENTRIES", list(SCHEMA_ENTRIES)
        yield "META_DATA_EXPORT", [("EXPORT_SCHEMA_VERSION", SCHEMA), SOURCE]
        job = facts.get("distributedInfo")
        job = job if isinstance(job, dict) else {}
        variables = (("RANK", job.get("rank")), ("WORLD_SIZE", job.get("world_size")))
        settings = (f"{name}={value}" for name, value in variables if isinstance(value, int))
        yield "META_DATA_CAPTURE", [("ENVIRONMENT_VARIABLE", setting) for setting in settings]
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
