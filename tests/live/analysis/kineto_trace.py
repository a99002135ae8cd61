"""A report of nsys as torch.profiler would have written it, so that one program has both."""

import gzip
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

_WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed"}
_PLACE = "start, end, deviceId, contextId, streamId, correlationId"
PREFIX = "CUPTI_ACTIVITY_KIND_"
Event = dict[str, Any]


def write_trace(report: Path, trace: Path) -> None:
    """Write the trace of a packed report of one process."""
    plain = trace.with_suffix(".nsys.sqlite")
    plain.write_bytes(gzip.decompress(report.read_bytes()))
    with closing(sqlite3.connect(plain)) as database:
        names = dict(database.execute("SELECT id, value FROM StringIds"))
        events = [*_list_gpu(database, names), *_list_host(database, names), *_list_waits(database)]
    facts = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}]}
    text = json.dumps(facts, indent=2).removesuffix("\n}")
    parts = ",\n".join(f"  {json.dumps(event, indent=2)[:-1]}  }}" for event in events)
    trace.write_text(f'{text},\n  "traceEvents": [\n{parts}\n  ]\n}}')
    plain.unlink()


def _make_event(
    cat: str, name: str, times: tuple[int, int], lane: tuple[int, int], args: Event
) -> Event:
    start, end = times
    head = {"ph": "X", "cat": cat, "name": name, "pid": lane[0], "tid": lane[1]}
    return {**head, "ts": start / 1000, "dur": (end - start) / 1000, "args": args}


def _place(device: int, context: int, stream: int, correlation: int) -> Event:
    return {"device": device, "context": context, "stream": stream, "correlation": correlation}


def _has(database: sqlite3.Connection, table: str) -> bool:
    return bool(database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall())


def _list_gpu(database: sqlite3.Connection, names: dict[int, str]) -> Iterator[Event]:
    columns = f"{_PLACE}, demangledName, gridX, gridY, gridZ, blockX, blockY, blockZ"
    for row in database.execute(f"SELECT {columns} FROM {PREFIX}KERNEL"):
        args = {**_place(*row[2:6]), "grid": row[7:10], "block": row[10:13]}
        yield _make_event("kernel", names[row[6]], row[:2], (row[2], row[4]), args)
    columns = f"{_PLACE}, bytes, copyKind, srcKind, dstKind"
    for row in database.execute(f"SELECT {columns} FROM {PREFIX}MEMCPY"):
        kinds = f"{_MEMORY.get(row[8], 'Device')} -> {_MEMORY.get(row[9], 'Device')}"
        name = f"Memcpy {_COPIES.get(row[7], 'DtoD')} ({kinds})"
        args = {**_place(*row[2:6]), "bytes": row[6]}
        yield _make_event("gpu_memcpy", name, row[:2], (row[2], row[4]), args)
    if _has(database, f"{PREFIX}MEMSET"):
        for row in database.execute(f"SELECT {_PLACE}, bytes FROM {PREFIX}MEMSET"):
            args = {**_place(*row[2:6]), "bytes": row[6]}
            yield _make_event("gpu_memset", "Memset", row[:2], (row[2], row[4]), args)


def _list_host(database: sqlite3.Connection, names: dict[int, str]) -> Iterator[Event]:
    columns = "start, end, globalTid, correlationId, nameId"
    for start, end, thread, correlation, name in database.execute(
        f"SELECT {columns} FROM {PREFIX}RUNTIME"
    ):
        ids = thread >> 24 & 0xFFFFFF, thread & 0xFFFFFF
        call = names[name].partition("_v")[0]
        yield _make_event("cuda_runtime", call, (start, end), ids, {"correlation": correlation})


def _list_waits(database: sqlite3.Connection) -> Iterator[Event]:
    recorded = {
        event: (correlation, stream)
        for event, correlation, stream in database.execute(
            f"SELECT eventSyncId, correlationId, streamId FROM {PREFIX}CUDA_EVENT"
        )
    }
    columns = f"{_PLACE}, syncType, eventSyncId"
    for row in database.execute(f"SELECT {columns} FROM {PREFIX}SYNCHRONIZATION"):
        correlation, stream = recorded.get(row[7], (-1, -1)) if row[6] in (1, 2) else (-1, -1)
        waits = {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": correlation}
        name = _WAITS.get(row[6], "Unknown")
        args = {"cuda_sync_kind": name, **_place(*row[2:6]), **waits}
        yield _make_event("cuda_sync", name, row[:2], (row[2], row[4]), args)
