"""Write a run as one Perfetto trace: each rank's streams, API calls, NVTX ranges, flows, counters.

Reports are read and written one after the other, so the memory is that of the largest one. The
trace opens in Perfetto's UI (ui.perfetto.dev, or a local copy of it).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.cached import activities_of, host_ranges_of
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.multi_report.omissions import tell_omissions
from gpu_profile.analysis.multi_report.work import read_one
from gpu_profile.analysis.replay.collect import ReplayPart, collect_replay
from gpu_profile.analysis.replay.critical_path import Stretch
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.store.cells import integer_or_none
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.timeline.counters import Series, gpu_metrics, make_counters
from gpu_profile.analysis.timeline.module_track import make_module_track
from gpu_profile.analysis.timeline.path_track import (
    group_lanes,
    list_path,
    make_events,
    name_stretch,
)
from gpu_profile.analysis.timeline.perfetto import BEGIN, COUNTER, NO_FLOW, Events, TraceWriter
from gpu_profile.analysis.timeline.streams import Slices, list_flows, list_streams
from gpu_profile.analysis.timeline.tracks import assign_lanes, is_nested, sort_edges
from gpu_profile.errors import GpuProfileError, ReportError
from gpu_profile.files import open_draft
from gpu_profile.table import Cell, Column, Table

_COLUMNS = tuple(
    Column(name) for name in ("Rank", "Device", "Tracks", "Slices", "Flows", "Counter values")
)


@dataclass
class _Count:
    tracks: int = 0
    slices: int = 0
    flows: int = 0
    values: int = 0


def write_timeline(
    reports: Sequence[tuple[str, Scope]],
    output: Path,
    redactor: Redactor | None = None,
    notify: Callable[[str], None] = lambda line: None,
    most_bytes: int = MOST_BYTES,
    clock_error_ns: int = 0,
) -> Table:
    """Write the trace (gzipped Perfetto protobuf) and return its content, one row for each rank.

    Each report (a path or a URL) comes with its scope: ranks, and the offset to the run's clock. A
    report without GPU work is shown by its NVTX ranges. Where the run can be replayed, the critical
    path of some steps is the last group of tracks. `clock_error_ns`: as of judge_run(). Names are
    redacted by `redactor`. A report that cannot be read is named by `notify` and left out. Raises
    ReportError if none can be read, or if there is nothing to show; nothing is written then.
    """
    rows: list[tuple[Cell, ...]] = []
    refused: list[GpuProfileError] = []
    parts: list[ReplayPart] = []
    with open_draft(output) as draft:
        with TraceWriter(draft) as trace:
            for place, scope in reports:
                notify(f"reading {place.rpartition('/')[2]}")
                read = read_one(place, partial(_load, scope=scope), most_bytes)
                if isinstance(read, GpuProfileError):
                    refused.append(read)
                else:
                    rows += _Report(trace, read, scope, redactor or Redactor()).write(len(rows))
                    parts.append(read.replay)
                del read  # frees its memory before the next one is read
            _write_path(trace, list_path(parts, clock_error_ns), redactor or Redactor())
        tell_omissions(refused, len(reports), len(reports) - len(refused), notify)
        if not rows:
            what = "the reports hold neither GPU work nor NVTX ranges"
            raise ReportError(what, "Record with --trace=cuda,nvtx")
    return Table("timeline", _COLUMNS, tuple(rows))


@dataclass(frozen=True, eq=False)
class _Loaded:
    """All data of one report for the trace.

    They are loaded before anything is written, so that a report that fails halfway leaves no half
    of a rank in the trace.
    """

    ranks: Sequence[Activity]
    on_host: Sequence[tuple[int, Ranges]]
    metrics: Sequence[Series]
    threads: Mapping[int, str]
    replay: ReplayPart


def _load(database: Database, scope: Scope) -> _Loaded:
    ranks = activities_of(database, scope)
    on_host = [] if ranks else list(host_ranges_of(database, scope))
    replay = collect_replay(database, scope)
    return _Loaded(ranks, on_host, gpu_metrics(database), _load_thread_names(database), replay)


def _write_path(trace: TraceWriter, path: Sequence[Stretch], redactor: Redactor) -> None:
    """Write the critical path as a group of its own: a track for each thread or stream on it."""
    parent = trace.process("critical path") if path else 0
    for title, stretches in group_lanes(path):
        texts = [redactor.text(name_stretch(stretch)) for stretch in stretches]
        numbers = trace.names(texts)
        track = trace.track(title, parent)
        trace.write(track, make_events(stretches, [numbers[text] for text in texts]))


class _Report:
    """Writes one report's part of the trace."""

    def __init__(
        self, trace: TraceWriter, loaded: _Loaded, scope: Scope, redactor: Redactor
    ) -> None:
        self._trace = trace
        self._loaded = loaded
        self._scope = scope
        self._redactor = redactor

    def write(self, flow_base: int) -> Iterator[tuple[Cell, ...]]:
        """Write the report and yield its rows. `flow_base`: how many ranks came before, so that
        flow ids differ between reports.
        """
        by_process: dict[int, list[Activity]] = {}
        for activity in self._loaded.ranks:
            by_process.setdefault(activity.process, []).append(activity)
        for number, group in enumerate(by_process.values()):
            yield from self._write_process(group, (flow_base + number + 1) << 40)
        yield from starmap(self._write_host, self._loaded.on_host)
        if self._loaded.metrics:
            group_track = self._trace.process("GPU metrics")
            for series in self._loaded.metrics:
                self._counter(group_track, series)

    def _write_process(self, group: list[Activity], flow_base: int) -> Iterator[tuple[Cell, ...]]:
        """Write all devices of one process, its calls and ranges with the first device."""
        linked = np.zeros(len(group[0].calls.start), bool)
        flows = [list_flows(activity, flow_base, linked) for activity in group]
        for index, activity in enumerate(group):
            count = _Count()
            parent = self._trace.process(f"rank {activity.rank}, GPU {activity.device}")
            tracks = list(list_streams(activity, flows[index]))
            if index == 0:
                tracks = [
                    *self._ranges(activity.ranges, _find_last_time(activity)),
                    *self._calls(activity, linked, flow_base),
                    *tracks,
                ]
            tracks += self._modules(activity)
            for slices in tracks:
                self._slices(parent, slices, activity.names, count)
            for series in make_counters(activity):
                count.values += self._counter(parent, series)
            count.flows = int(np.count_nonzero(flows[index]))
            yield (
                *(activity.rank, activity.device),
                *(count.tracks, count.slices, count.flows, count.values),
            )

    def _write_host(self, rank: int, ranges: Ranges) -> tuple[Cell, ...]:
        count, parent = _Count(), self._trace.process(f"rank {rank}")
        for slices in self._ranges(ranges, 0):
            self._slices(parent, slices, {}, count)
        return (rank, None, count.tracks, count.slices, count.flows, count.values)

    def _ranges(self, ranges: Ranges, last: int) -> Iterator[Slices]:
        """The NVTX tracks; `last` is the end of ranges that were never closed."""
        codes = self._codes(dict(enumerate(ranges.names)))
        for thread in np.unique(ranges.thread):
            chosen = np.flatnonzero(ranges.thread == thread)
            end = np.where(ranges.end[chosen] == FOREVER, last, ranges.end[chosen])
            name = np.array([codes[int(code)] for code in ranges.name[chosen]], np.int64)
            title = f"NVTX, {self._thread(int(thread))}"
            flow = np.full(len(chosen), NO_FLOW)
            yield Slices(title, ranges.start[chosen], end, name, flow, is_encoded=True)

    def _modules(self, activity: Activity) -> Iterator[Slices]:
        """The track of the model's modules on the GPU, if the run was recorded with --annotate."""
        track = make_module_track(activity)
        if track:
            codes = self._codes(dict(enumerate(track.names)))
            name = np.array([codes[number] for number in range(len(codes))], np.int64)[track.name]
            flow = np.full(len(name), NO_FLOW)
            yield Slices("Modules", track.start, track.end, name, flow, is_encoded=True)

    def _calls(self, activity: Activity, linked: IntArray, flow_base: int) -> Iterator[Slices]:
        calls = activity.calls
        flow = np.where(linked, flow_base + np.arange(len(linked)) + 1, NO_FLOW)
        for number in list_distinct(calls.thread):
            chosen = np.flatnonzero(calls.thread == number)
            title = f"CUDA API, {self._thread(int(calls.threads[number]))}"
            yield Slices(
                title, calls.start[chosen], calls.end[chosen], calls.name[chosen], flow[chosen]
            )

    def _slices(self, parent: int, slices: Slices, names: Mapping[int, str], count: _Count) -> None:
        order = sort_edges(slices.start, slices.end)
        lane = np.zeros(1, np.int64)
        if not is_nested(order):
            lane = assign_lanes(slices.start, slices.end)
        code = slices.name
        if not slices.is_encoded:
            code = self._resolve(slices.name, names)
        for number in range(int(lane.max()) + 1):
            title = slices.title + (f" ({number + 1})" if number else "")
            track = self._trace.track(title, parent)
            rows = np.flatnonzero(lane == number) if len(lane) > 1 else np.arange(len(code))
            self._trace.write(track, self._events(slices, code, rows))
            count.tracks += 1
        count.slices += len(slices.start)

    def _events(self, slices: Slices, code: IntArray, rows: IntArray) -> Events:
        order = sort_edges(slices.start[rows], slices.end[rows])
        row = rows[order.row]
        flow = np.where(order.kind == BEGIN, slices.flow[row], NO_FLOW)
        time = order.time + self._scope.offset_ns
        return Events(time, order.kind, code[row], flow, slices.arrives)

    def _counter(self, parent: int, series: Series) -> int:
        track = self._trace.track(self._redactor.text(series.title), parent, series.unit)
        size = len(series.time)
        kind, none = np.full(size, COUNTER), np.full(size, NO_FLOW)
        time = series.time + self._scope.offset_ns
        self._trace.write(track, Events(time, kind, none, none, value=series.value))
        return size

    def _resolve(self, ids: IntArray, names: Mapping[int, str]) -> IntArray:
        unique, inverse = np.unique(ids, return_inverse=True)
        codes = self._codes({int(key): names.get(int(key), "") for key in unique})
        return np.array([codes[int(key)] for key in unique], np.int64)[inverse]

    def _codes(self, names: Mapping[int, str]) -> dict[int, int]:
        texts = {key: self._redactor.text(text) or "(no name)" for key, text in names.items()}
        numbers = self._trace.names(texts.values())
        return {key: numbers[text] for key, text in texts.items()}

    def _thread(self, thread: int) -> str:
        number = thread & 0xFFFFFF
        name = self._loaded.threads.get(thread, "")
        return f"{self._redactor.text(name)} {number}" if name else f"thread {number}"


def _load_thread_names(database: Database) -> dict[int, str]:
    columns = integer_or_none("globalTid"), integer_or_none("nameId")
    rows = read_records(database, "ThreadNames", *columns)
    names = database.names(np.array([name for _, name in rows if name], np.int64))
    return {thread: names[name] for thread, name in rows if thread and name}


def _find_last_time(activity: Activity) -> int:
    ops, calls = activity.ops.end.max(initial=0), activity.calls.end.max(initial=0)
    return max(ops, calls, int(activity.ranges.start.max(initial=0)))
