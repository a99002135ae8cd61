"""The Perfetto trace: what is in the file is what is in the reports, nested and in order."""

import gzip
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.timeline.perfetto import BEGIN, COUNTER, END, INSTANT
from gpu_profile.analysis.timeline.timeline import write_timeline
from gpu_profile.analysis.timeline.tracks import assign_lanes, is_nested, sort_edges
from gpu_profile.errors import ReportError
from tests.generator.gpt import save_training

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
ALL = DATA / "all-ranks-one-report.sqlite.gz"
SMALL = (str(DATA.parent / "h200-tables" / "window.sqlite.gz"), Scope())


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) of a protocol buffer: varints, fixed64 as bytes, messages as bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
        else:
            size, at = (8, at) if tag & 7 == 1 else _read_varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins there, and the place after it."""
    value = shift = 0
    while (byte := data[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


class Parsed:
    """Every track event by track, and the tracks' names."""

    def __init__(self, path: Path) -> None:
        self.events: dict[int, list[tuple[int, int, dict[int, Any]]]] = {}
        self.tracks: dict[int, str] = {}
        self.names: dict[int, str] = {}
        for _, packet in _fields(gzip.decompress(path.read_bytes())):
            self._packet(dict(_fields(packet)))

    def _packet(self, packet: dict[int, Any]) -> None:
        if 60 in packet:
            track = dict(_fields(packet[60]))
            text = track.get(2) or dict(_fields(track[3]))[6]
            self.tracks[track[1]] = text.decode()
        for _, entry in _fields(packet.get(12, b"")):
            name = dict(_fields(entry))
            self.names[name[1]] = name[2].decode()
        if 11 in packet:
            event = dict(_fields(packet[11]))
            self.events.setdefault(event[11], []).append((packet[8], event[9], event))

    def slices(self) -> Iterator[tuple[str, str, int]]:
        """(track, name, duration); fails where an end has no begin or time runs back."""
        for track, events in self.events.items():
            stack: list[tuple[int, str]] = []
            last = 0
            for time, kind, event in events:
                assert time >= last
                last = time
                if kind == BEGIN:
                    stack.append((time, self.names[event[10]]))
                elif kind == END:
                    begin, name = stack.pop()
                    yield self.tracks[track], name, time - begin
            assert not stack

    def flows(self, field: int) -> Counter[bytes]:
        flows = [event[2].get(field) for events in self.events.values() for event in events]
        return Counter(flow for flow in flows if flow)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    output = tmp_path_factory.mktemp("timeline") / "run.pftrace.gz"
    write_timeline([(str(ALL), Scope())], output)
    return Parsed(output)


def _sum_over_tables(report: sqlite3.Connection, what: str, *tables: str) -> int:
    sums = [report.execute(f"SELECT {what} FROM {table}").fetchone() for table in tables]
    return sum(number for (number,) in sums)


@pytest.mark.recorded
def test_every_event_is_a_slice_with_its_duration(parsed: Parsed, tmp_path: Path) -> None:
    slices = list(parsed.slices())
    on_gpu = [duration for track, _, duration in slices if track.startswith("GPU stream")]
    tables = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
    (tmp_path / "all.sqlite").write_bytes(gzip.decompress(ALL.read_bytes()))
    with closing(sqlite3.connect(tmp_path / "all.sqlite")) as report:
        assert len(on_gpu) == _sum_over_tables(report, "count(*)", *tables)
        assert sum(on_gpu) == _sum_over_tables(report, "sum(end - start)", *tables)
        count = _sum_over_tables(report, "count(*)", "CUPTI_ACTIVITY_KIND_RUNTIME")
    calls = [track for track, _, _ in slices if track.startswith("CUDA API")]
    assert len(calls) == count


@pytest.mark.recorded
def test_the_critical_path_has_a_group_of_its_own(parsed: Parsed) -> None:
    """Four steps of 15.7 ms: stretches of hosts and GPUs in a row."""
    lanes = {name for name in parsed.tracks.values() if name.startswith("rank 0, thread ")}
    assert "critical path" in parsed.tracks.values()
    assert len(lanes) == 2  # the main thread, and that of autograd
    path = [slice for slice in parsed.slices() if re.match(r"rank \d, (thread|stream) ", slice[0])]
    assert {name.partition(" in ")[0] for _, name, _ in path} >= {
        "host work",
        "CUDA call",
        "kernel",
    }
    assert sum(duration for _, _, duration in path) / 1e6 == pytest.approx(4 * 15.7, rel=0.02)


@pytest.mark.recorded
def test_flows_leave_once_and_arrive_once(parsed: Parsed) -> None:
    leaving, arriving = parsed.flows(47), parsed.flows(48)
    assert leaving == arriving
    assert set(leaving.values()) == {1}
    assert len(leaving) == 31_764


@pytest.mark.recorded
def test_ranks_streams_threads_and_counters_have_names(parsed: Parsed) -> None:
    names = Counter(parsed.tracks.values())
    for name in ("rank 0, GPU 0", "rank 3, GPU 3", "NVTX, python 954"):
        assert names[name] == 1
    for name in ("GPU stream 7", "GPU stream 19 communication", "GPU operations queued"):
        assert names[name] == 4
    kinds = Counter(kind for events in parsed.events.values() for _, kind, _ in events)
    assert kinds[COUNTER] > 1000
    assert "NCCL:ncclAllReduce" in parsed.names.values()


def test_several_reports_with_offsets_are_the_same_bytes_each_time(
    short_run: Path, tmp_path: Path
) -> None:
    two = [(f"{short_run}/rank{rank}.sqlite", Scope(offset_ns=rank)) for rank in range(2)]
    table = write_timeline(two, tmp_path / "a.pftrace.gz")
    write_timeline(two, tmp_path / "b.pftrace.gz")
    assert (tmp_path / "a.pftrace.gz").read_bytes() == (tmp_path / "b.pftrace.gz").read_bytes()
    parsed = Parsed(tmp_path / "a.pftrace.gz")
    assert len(list(parsed.slices())) == sum(int(str(cell)) for cell in table.column("Slices"))
    assert set(parsed.flows(47).values()) == {1}


def test_gpu_metrics_become_counters(short_run: Path, tmp_path: Path) -> None:
    report = Path(shutil.copy(short_run / "rank0.sqlite", tmp_path / "metrics.sqlite"))
    with closing(sqlite3.connect(report)) as plant:
        plant.executescript("""
            CREATE TABLE GPU_METRICS (timestamp INT, typeId INT, metricId INT, value INT);
            INSERT INTO GPU_METRICS VALUES (200, 259, 7, 61), (100, 259, 7, 40);
            CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INT, metricId INT, metricName TEXT);
            INSERT INTO TARGET_INFO_GPU_METRICS VALUES (259, 7, 'SMs Active');
        """)
    write_timeline([(str(report), Scope())], tmp_path / "out.gz")
    parsed = Parsed(tmp_path / "out.gz")
    track = next(key for key, name in parsed.tracks.items() if name == "GPU 3: SMs Active")
    values = [np.frombuffer(event[44], "<f8")[0] for _, _, event in parsed.events[track]]
    assert values == [40.0, 61.0]


def test_an_unreadable_report_leaves_no_trace(tmp_path: Path) -> None:
    bad = tmp_path / "rank1.sqlite"
    bad.write_bytes(b"not a database")
    with pytest.raises(ReportError, match=r"rank1\.sqlite is not a SQLite file"):
        write_timeline([(str(bad), Scope())], tmp_path / "out.gz")
    assert [path.name for path in tmp_path.iterdir()] == ["rank1.sqlite"]


@pytest.mark.further
def test_an_unreadable_report_beside_others_is_told_and_left_out(tmp_path: Path) -> None:
    bad, told = tmp_path / "rank1.sqlite", list[str]()
    bad.write_bytes(b"not a database")
    facts = write_timeline([SMALL, (str(bad), Scope())], tmp_path / "out.gz", notify=told.append)
    assert facts == write_timeline([SMALL], tmp_path / "alone.gz")
    assert (tmp_path / "out.gz").read_bytes() == (tmp_path / "alone.gz").read_bytes()
    assert told[-2].startswith(f"left out: {bad} is not a SQLite file")
    assert told[-1] == "note: 1 of 2 reports left out: what follows is of the other 1"


def test_a_report_without_gpu_work_shows_its_ranges(tmp_path: Path) -> None:
    report, output = tmp_path / "rank0.sqlite", tmp_path / "out.gz"
    report.write_bytes(gzip.decompress((DATA / "rank0.sqlite.gz").read_bytes()))
    with closing(sqlite3.connect(report)) as plant:
        for kind in ("KERNEL", "MEMCPY", "MEMSET"):
            plant.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{kind}")
        (ranges,) = plant.execute(
            "SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60) AND end IS NOT NULL"
        ).fetchone()
    ((rank, device, _, slices, flows, _),) = write_timeline([(str(report), Scope())], output).rows
    assert (rank, device, slices, flows) == (0, None, ranges, 0)
    tracks = {track for track, _, _ in Parsed(output).slices()}
    assert all(track.startswith("NVTX, ") for track in tracks)

    output.unlink()
    with closing(sqlite3.connect(report)) as plant:
        plant.execute("DROP TABLE NVTX_EVENTS")
    with pytest.raises(ReportError, match="hold neither GPU work nor NVTX ranges"):
        write_timeline([(str(report), Scope())], output)
    assert not output.exists()


@pytest.mark.parametrize(
    ("start", "end", "good"),
    [
        ([0, 10, 20], [10, 20, 30], True),
        ([0, 1, 2, 6], [9, 5, 3, 9], True),
        ([0, 0, 0], [9, 9, 4], True),
        ([0, 5], [6, 9], False),
        ([0, 4, 4], [4, 4, 8], True),
    ],
)
def test_nesting(start: list[int], end: list[int], good: bool) -> None:
    order = sort_edges(np.array(start), np.array(end))
    assert is_nested(order) is good
    assert list(np.diff(order.time) >= 0) == [True] * (len(order.time) - 1)
    assert (INSTANT in order.kind.tolist()) is any(np.equal(start, end))


def test_lanes_hold_no_overlap() -> None:
    start = np.sort(np.random.default_rng(7).integers(0, 1000, 300))
    end = start + np.random.default_rng(8).integers(1, 60, 300)
    lane = assign_lanes(start, end)
    for number in range(int(lane.max()) + 1):
        mine = lane == number
        assert np.all(start[mine][1:] >= end[mine][:-1])


def test_a_track_has_the_modules_on_the_gpu(tmp_path: Path) -> None:
    output = tmp_path / "trace"
    layers, steps = 3, 4
    path = save_training(tmp_path / "run.sqlite", layers, steps)
    write_timeline([(str(path), Scope())], output)
    slices = [row for row in Parsed(output).slices() if row[0] == "Modules"]
    names = Counter(name for _, name, _ in slices)
    assert names["forward transformer.h.1.mlp.act"] == 2 * steps
    assert names["backward transformer.h.1.attn.c_attn"] == 2 * steps
    assert names["optimizer AdamW"] == 2 * steps
    of_module = [time for _, name, time in slices if name == "forward transformer.h.1.mlp.act"]
    assert set(of_module) == {25_000}
