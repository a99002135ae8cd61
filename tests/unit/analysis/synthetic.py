"""Reports made by code: a small model of hosts, GPUs and collectives, written as nsys exports."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from tests.written_database import write_database

TABLES = {
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT,"
    " correlationId INT, nameId INT, returnValue INT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, demangledName INT, shortName INT, graphNodeId INT",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, bytes INT, value INT, memKind INT",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, graphExecId INT",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, syncType INT, eventSyncId INT",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId INT, streamId INT, correlationId INT,"
    " globalPid INT, eventSyncId INT",
    "NVTX_EVENTS": "start INT, end INT, eventType INT, globalTid INT, domainId INT, text TEXT,"
    " textId INT, binaryData TEXT, int64Value INT, category INT",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": "domainId INT, schemaId INT, name TEXT, offset INT",
    "NVTX_PAYLOAD_SCHEMAS": "domainId INT, schemaId INT, name TEXT",
    "CUDA_GRAPH_NODE_EVENTS": "start INT, globalTid INT, graphNodeId INT, originalGraphNodeId INT",
    "OSRT_API": "start INT, end INT, globalTid INT, nameId INT",
    "ThreadNames": "nameId INT, priority INT, globalTid INT",
    "COMPOSITE_EVENTS": "id INT, start INT, globalTid INT",
    "SAMPLING_CALLCHAINS": "id INT, symbol INT, module INT, stackDepth INT",
    "TARGET_INFO_GPU_METRICS": "typeId INT, metricId INT, metricName TEXT",
    "GPU_METRICS": "timestamp INT, typeId INT, metricId INT, value INT",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INT, globalPid INT, deviceId INT, bytes INT,"
    " memKind INT, memoryOperationType INT",
    "PROFILER_OVERHEAD": "start INT, end INT, globalTid INT, nameId INT, returnValue INT",
    "TARGET_INFO_GPU": "id INT, name TEXT",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INT, cudaId INT, pid INT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INT",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT, value TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INT, severity INT, text TEXT, globalPid INT",
}
TIMED = tuple(table for table, columns in TABLES.items() if columns.startswith("start INT, end"))
Row = tuple[object, ...]


@dataclass
class Recording:
    """Rows by table; times in ns. `origin` is the time that the saved report counts from."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})
    names: dict[str, int] = field(default_factory=dict)
    origin: int = 0

    def add(self, table: str, *row: object) -> None:
        self.rows[table].append(row)

    def name(self, text: str) -> int:
        return self.names.setdefault(text, len(self.names) + 1)

    def save(self, path: Path) -> Path:
        """Write the export; a table without rows is absent, as nsys has it."""
        self.rows["META_DATA_EXPORT"] = [("EXPORT_SCHEMA_VERSION", "3.20.3")]
        self.rows["StringIds"] = [(number, text) for text, number in self.names.items()]
        with write_database(path) as database:
            for table, columns in TABLES.items():
                rows = self._shifted(table)
                if rows or table == "StringIds":
                    database.execute(f"CREATE TABLE {table} ({columns})")
                    names = [f'"{column.split()[0]}"' for column in columns.split(",")]
                    for width, alike in groupby(rows, key=len):
                        places = f"({','.join(names[:width])}) VALUES ({','.join('?' * width)})"
                        database.executemany(f"INSERT INTO {table} {places}", alike)
        return path

    def _shifted(self, table: str) -> list[Row]:
        """A table's rows with their times counted from `origin`; an end may be None."""
        rows = self.rows[table]
        if not self.origin or table not in TIMED:
            return rows
        times = [
            tuple(None if t is None else int(str(t)) - self.origin for t in r[:2]) for r in rows
        ]
        return [(*time, *row[2:]) for time, row in zip(times, rows, strict=True)]


US = 1_000
MS = 1_000_000
STREAM, NCCL_STREAM = 7, 19
SCHEMA, PYTHON = 16777221, 4294967298
MARKS = 3  # the domain of --annotate


@dataclass
class Rank:
    """One process on one GPU: a host that issues work in order, and a GPU that runs it.

    The host is at `now`; the GPU's stream is free at `free`, its stream of communication at
    `talked`. `launch_us` is what a launch costs. A launch waits for room in a queue of `depth`
    kernels (0: there is always room); `started` is when each kernel started. The host is on the
    main thread, or with a `lane` on another one (autograd's). With `events` the report holds the
    events and waits that order the streams, `event` is the last one's number.
    """

    recording: Recording
    rank: int
    launch_us: float = 6.0
    now: int = 0
    free: int = 0
    calls: int = 0
    talked: int = 0
    depth: int = 0
    started: list[int] = field(default_factory=list)
    lane: int = 0
    events: bool = False
    event: int = 0

    @property
    def process(self) -> int:
        return (1 << 48) | ((100 + self.rank) << 24)

    @property
    def thread(self) -> int:
        return self.process | (100 + self.rank + self.lane)

    def call(self, name: str, length: float) -> int:
        """A CUDA call of `length` us; its correlation id."""
        self.calls += 1
        end = self.now + int(length * US)
        ids = (self.thread, self.calls, self.recording.name(name), 0)
        self.recording.add("CUPTI_ACTIVITY_KIND_RUNTIME", self.now, end, 0, *ids)
        self.now = end
        return self.calls

    def work(self, host_us: float) -> None:
        """The host does something that is no CUDA call."""
        self.now += int(host_us * US)

    def kernel(self, length: float, name: str = "gemm", node: int | None = None) -> None:
        """Launch a kernel that takes `length` us on the GPU, as the `node` of a CUDA graph."""
        room = self.started[-self.depth] if 0 < self.depth <= len(self.started) else 0
        launch_time = max(self.now, room)
        call = self.call("cudaLaunchKernel_v7000", (launch_time - self.now) / US + self.launch_us)
        start = max(self.free + US, launch_time + 4 * US)
        self.free = start + int(length * US)
        self.started.append(start)
        code = self.recording.name(name)
        place: Row = (self.rank, STREAM, call, self.process, code, code)
        place += () if node is None else (node,)
        self.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", start, self.free, *place)

    def graph(self, length: float, executable: int = 0) -> None:
        """Launch a CUDA graph that takes `length` us on the GPU, traced as a whole."""
        launch_time = self.now
        call = self.call("cudaGraphLaunch_v10000", 10)
        start = max(self.free + US, launch_time + 4 * US)
        self.free = start + int(length * US)
        place = (self.rank, STREAM, call, self.process, executable)
        self.recording.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start, self.free, *place)

    def copy_on_device(self, megabytes: float) -> None:
        """Copy within the GPU's memory at 2 TB/s."""
        launch_time, size = self.now, int(megabytes * 1e6)
        call = self.call("cudaMemcpyAsync_v3020", self.launch_us)
        start = max(self.free + US, launch_time + 4 * US)
        self.free = start + int(size / 2000)
        place = (self.rank, STREAM, call, self.process, size, 8, 2, 2)
        self.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, self.free, *place)

    def copy(
        self, megabytes: float, gb_per_s: float = 50.0, pageable: bool = False, kind: int = 1
    ) -> None:
        """Copy, to the device by default; with pageable memory the host waits until it is done."""
        launch_time, size = self.now, int(megabytes * 1e6)
        start = max(self.free + US, launch_time + 4 * US)
        self.free = start + int(size / gb_per_s)
        held = (self.free - launch_time) / US if pageable else self.launch_us
        call = self.call("cudaMemcpyAsync_v3020", held)
        place = (self.rank, STREAM, call, self.process, size, kind, 0 if pageable else 1, 2)
        self.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, self.free, *place)

    def item(self, pageable: bool = False) -> None:
        """Ask for one value; into pageable memory the copy itself waits, else what follows it."""
        launch_time = self.now
        start = max(self.free + US, launch_time + 4 * US)
        self.free = start + 2 * US
        held = (self.free - launch_time) / US if pageable else self.launch_us
        call = self.call("cudaMemcpyAsync_v3020", held)
        place = (self.rank, STREAM, call, self.process, 4, 2, 2, 0 if pageable else 1)
        self.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, self.free, *place)
        self.synchronize()

    def sample(self, start: int, *frames: tuple[str, str, int], every_us: int = 500) -> None:
        """Python samples from `start` until now; frames (function, file, line), innermost first."""
        names = [(self.recording.name(f), self.recording.name(file), n) for f, file, n in frames]
        body = b"".join(struct.pack("<3Q", *frame) for frame in names)
        payload = struct.pack("<QiI", 1, 1, len(frames)) + body
        blob = struct.pack("<4Q", 2, PYTHON, len(payload), 32) + payload
        self.recording.rows["NVTX_PAYLOAD_SCHEMAS"] = [(2, PYTHON, "Python Periodic Sampling")]
        for time in range(start, self.now, every_us * US):
            row = (time, None, 34, self.thread, 2, None, None, blob)
            self.recording.add("NVTX_EVENTS", *row)

    def allocate(self, megabytes: float, free: bool = False) -> None:
        """Device memory, reserved or given back now."""
        size = int(megabytes * 1e6)
        row = (self.now, self.process, self.rank, size, 2, int(free))
        self.recording.add("CUDA_GPU_MEMORY_USAGE_EVENTS", *row)

    def wait_for(self, call: str, length_us: float) -> None:
        """A call of the operating system that returns after so long."""
        end = self.now + int(length_us * US)
        self.recording.add("OSRT_API", self.now, end, self.thread, self.recording.name(call))
        self.now = end

    def synchronize(self, return_us: float = 3) -> None:
        """Wait for the GPU; the call returns so long after it is done."""
        start = self.now
        held = max(self.free - self.now, 0) / US + return_us
        call = self.call("cudaStreamSynchronize_v3020", held)
        if self.events:
            self._add_wait(start, STREAM, call, 2)

    def _add_wait(self, start: int, stream: int, call: int, kind: int, event: int = 0) -> None:
        place = (self.rank, stream, call, self.process, kind, event)
        self.recording.add("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start, self.now, *place)

    def order_streams(self, first: int, then: int) -> None:
        """What is launched on stream `then` waits for what was on stream `first`."""
        if not self.events:
            return
        self.event += 1
        call = self.call("cudaEventRecord_v3020", 1)
        place = (self.rank, first, call, self.process, self.event)
        self.recording.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", *place)
        start = self.now
        call = self.call("cudaStreamWaitEvent_v3020", 1)
        self._add_wait(start, then, call, 3, self.event)

    def range(self, name: str, start: int) -> None:
        """An NVTX range from `start` until now."""
        row = (start, self.now, 59, self.thread, 0, name, None, None)
        self.recording.add("NVTX_EVENTS", *row)

    def _open_marks(self, start: int) -> None:
        domain = (start, None, 75, self.thread, MARKS, "gpu-profile", None, None)
        if not any(row[2:5] == domain[2:5] for row in self.recording.rows["NVTX_EVENTS"]):
            self.recording.add("NVTX_EVENTS", *domain)

    def pause(self, text: str, start: int, thread: int = 0) -> None:
        """A mark of --annotate for the time from `start` until now: a stack, a collection."""
        self._open_marks(start)
        row = (self.now, None, 34, self.thread + bool(thread), MARKS, None)
        number = self.recording.name(text)
        self.recording.add("NVTX_EVENTS", *row, number, None, self.now - start, thread)

    def mark(self, text: str, start: int, payload: int | None = None) -> None:
        """A range of --annotate from `start` until now."""
        self._open_marks(start)
        row = (start, self.now, 59, self.thread, MARKS, None, self.recording.name(text))
        self.recording.add("NVTX_EVENTS", *row, None, payload)


def add_metrics(recording: Recording, every_us: int, until: int, **values: int) -> None:
    """GPU metrics in per cent of GPU 0, the same all the time: SMs_Active=80."""
    for number, (name, value) in enumerate(values.items()):
        title = f"{name.replace('_', ' ')} [Throughput %]"
        recording.add("TARGET_INFO_GPU_METRICS", 1 << 48, number, title)
        for time in range(0, until, every_us * US):
            recording.add("GPU_METRICS", time, 1 << 48, number, value)


def add_cpu_sample(rank: Rank, time: int, *symbols: tuple[str, str]) -> None:
    """One sample of C and C++: (function, module), innermost first."""
    recording = rank.recording
    number = len(recording.rows["COMPOSITE_EVENTS"]) + 1
    recording.add("COMPOSITE_EVENTS", number, time, rank.thread)
    for depth, (symbol, module) in enumerate(symbols):
        row = (number, recording.name(symbol), recording.name(module), depth)
        recording.add("SAMPLING_CALLCHAINS", *row)


def tell_size(rank: Rank, start: int, size: int) -> None:
    """NCCL's range from `start` until now, with the message's size as its payload."""
    blob = struct.pack("<4Q2Q", 1, SCHEMA, 16, 32, 77, size)
    text = rank.recording.name("ncclAllReduce")
    rows = (start, rank.now, 59, rank.thread, 1, None, text, blob)
    rank.recording.add("NVTX_EVENTS", *rows)
    entries = rank.recording.rows["NVTX_PAYLOAD_SCHEMA_ENTRIES"]
    entries[:] = [(1, SCHEMA, "NCCL communicator ID", None), (1, SCHEMA, "Message size [bytes]", 8)]


def all_reduce(
    ranks: Sequence[Rank], transfer_us: float = 100.0, size: int = 0, overlap: bool = False
) -> None:
    """Every rank's kernel waits for the last one and ends with it; the stream waits for it, or
    with `overlap` only at `join_communication`.

    With a `size` (bytes), NCCL tells it.
    """
    arrivals, calls = [], []
    for rank in ranks:
        rank.order_streams(STREAM, NCCL_STREAM)
        launch_time = rank.now
        calls.append(rank.call("cudaLaunchKernelExC_v11060", rank.launch_us))
        arrivals.append(max(rank.free + US, rank.talked + US, launch_time + 4 * US))
        if size:
            tell_size(rank, launch_time - US, size)
    end = max(arrivals) + int(transfer_us * US)
    for rank, call, start in zip(ranks, calls, arrivals, strict=True):
        code = rank.recording.name("ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        place = (rank.rank, NCCL_STREAM, call, rank.process, code, code)
        rank.recording.add("CUPTI_ACTIVITY_KIND_KERNEL", start, end, *place)
        rank.talked = end
        if not overlap:
            join_communication(rank)


def join_communication(rank: Rank) -> None:
    """The rank's next operation waits for its communication."""
    if rank.talked:
        rank.order_streams(NCCL_STREAM, STREAM)
    rank.free = max(rank.free, rank.talked)


def ranks_of(count: int) -> list[Rank]:
    """Ranks in one recording, which begin within microseconds."""
    recording = Recording()
    for number in range(count):
        recording.add("TARGET_INFO_GPU", number, "NVIDIA H200")
        recording.add("TARGET_INFO_CUDA_DEVICE", number, number, 100 + number)
    return [Rank(recording, number, now=number * US) for number in range(count)]
