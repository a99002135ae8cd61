"""Traces of torch.profiler are read as reports: the same rows, whatever wrote their JSON."""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.analysis.kineto import events as reading
from gpu_profile.analysis.kineto.export import export_trace
from gpu_profile.analysis.kineto.source import describe_source
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import (
    CUDA_EVENT,
    KERNEL,
    MEMCPY,
    NVTX,
    RUNTIME,
    SYNCHRONIZATION,
)
from gpu_profile.analysis.store.target import count_multiprocessors
from gpu_profile.errors import ReportError
from gpu_profile.runs.reports.report_files import find_reports
from gpu_profile.settings.places import ROOT
from tests.invoked import invoke, reporting_here

ORIGIN = "1712195495505582.988"
"""A time of kineto before it had a base: a float would round it to 0.25 us."""
HOSTILE = 'void ns::gemm<4>(int) {"ph": "X"},\n  {\n "traceEvents": [ \\'
FACTS: Mapping[str, Any] = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 4},
    "huge": 10**30,
}


def _event(cat: str, name: str, ts: str, dur: str, pid: int, tid: int, **args: Any) -> str:
    """An event in Kineto's own layout, whose times are JSON numbers of any length."""
    head = f'"ph": "X", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid},'
    return f'  {{\n    {head}\n    "ts": {ts}, "dur": {dur},\n    "args": {json.dumps(args)}\n  }}'


def _list_events(steps: int = 1) -> list[str]:
    where = {"device": 0, "context": 1, "stream": 7}
    shape = {"registers per thread": 32, "shared memory": 48, "grid": [4, 1, 2], "block": [8, 1, 1]}
    later = ORIGIN[:-3] + "999"
    flow = '  {\n    "ph": "s", "id": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"\n  }'
    events = []
    for number in range(steps):
        ids = {"correlation": 10 * number, "External id": 10**25, "blocks per SM": 0.5}
        copy = {**where, "bytes": 4096, "correlation": 10 * number + 1}
        events += [
            _event("cpu_op", "aten::mm", ORIGIN, "9", 40, 40),
            _event("user_annotation", f"ProfilerStep#{number}", ORIGIN, "30.5", 40, 40),
            flow,
            _event("cuda_runtime", "cudaLaunchKernel", ORIGIN, "5", 40, 40, **ids),
            _event("Kernel", HOSTILE, later, "4.928", 0, 7, **where, **shape, **ids),
            _event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", ORIGIN, "2", 0, 7, **copy),
        ]
    return events


def _write(path: Path, events: Sequence[str], facts: Mapping[str, Any] = FACTS) -> Path:
    head = json.dumps(facts, indent=2).removesuffix("\n}")
    text = f'{head},\n  "traceEvents": [\n' + ",\n".join(events) + '\n  ],\n  "traceName": "t"\n}'
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def _read(trace: Path) -> dict[str, Any]:
    export = trace.with_name(f"{trace.name}.sqlite")
    export_trace(trace, export)
    with Database.open(export) as database:
        columns = ("start", "end", "streamId", "correlationId", "gridZ", "shortName", "globalPid")
        kernel = database.load(KERNEL, *columns)
        copy = database.load(MEMCPY, "start", "bytes", "copyKind", "srcKind", "dstKind")
        call = database.load(RUNTIME, "start", "end", "correlationId", "globalTid")
        step = database.load(NVTX, "start", "end", "textId", "globalTid")
        names = database.names(kernel["shortName"]) | database.names(step["textId"])
        tables = {"kernel": kernel, "copy": copy, "call": call, "step": step}
        rows = {
            f"{table}.{name}": values.tolist()
            for table, by_name in tables.items()
            for name, values in by_name.items()
        }
        count = count_multiprocessors(database, "NVIDIA H200")
        return {**rows, "names": sorted(names.values()), "multiprocessors": count}


def test_a_trace_has_the_rows_of_a_report(tmp_path: Path) -> None:
    rows = _read(_write(tmp_path / "a.pt.trace.json", _list_events()))
    assert (rows["names"], rows["multiprocessors"]) == (["ProfilerStep#0", "gemm"], 132)
    assert (rows["kernel.start"], rows["kernel.end"]) == ([11], [11 + 4928])
    assert (rows["step.start"], rows["step.end"]) == ([0], [30_500])
    assert (rows["kernel.correlationId"], rows["call.correlationId"]) == ([0], [0])
    assert (rows["kernel.gridZ"], rows["kernel.streamId"]) == ([2], [7])
    copies = {name: rows[f"copy.{name}"] for name in ("bytes", "copyKind", "srcKind", "dstKind")}
    assert copies == {"bytes": [4096], "copyKind": [2], "srcKind": [2], "dstKind": [1]}
    assert rows["kernel.globalPid"][0] >> 24 == rows["call.globalTid"][0] >> 24


def test_any_layout_has_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end within events: the traces are larger than several blocks."""
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 16)
    events = _list_events(300)
    kineto = _read(_write(tmp_path / "a.pt.trace.json.gz", events))
    document = json.loads(gzip.decompress((tmp_path / "a.pt.trace.json.gz").read_bytes()))
    assert len(kineto["kernel.start"]) == len(events) / 6
    # json.dumps rounds the times: they are whole us here, so that both are equal.
    for event in document["traceEvents"]:
        event["ts"] = 1000
    whole = tmp_path / "whole.json"
    _write(
        whole,
        [event.replace(ORIGIN[:-3] + "999", ORIGIN).replace(ORIGIN, "1000") for event in events],
    )
    for name, comma in (("line", ", "), ("spread", ",\n  ")):
        other = tmp_path / f"{name}.json"
        other.write_text(json.dumps(document, separators=(comma, ": ")))
        assert _read(other) == _read(whole)
        (tmp_path / "whole.json.sqlite").unlink()


def test_a_user_reads_a_folder_of_traces(tmp_path: Path) -> None:
    for rank in range(2):
        facts = {**FACTS, "distributedInfo": {"rank": rank, "world_size": 2}}
        events = [event.replace("988", f"98{rank}") for event in _list_events(3)]
        _write(tmp_path / f"host_{rank}.17.pt.trace.json", events, facts)
    (tmp_path / "other.json").write_text("{}")
    place = reporting_here(tmp_path)
    done = invoke(
        *("stats", f"--report={tmp_path}", "--table=cuda_gpu_kern_sum", "--by=rank"),
        "--format=json",
        directory=place,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["cuda_gpu_kern_sum"]
    assert [(row["Rank"], row["Instances"], row["Total Time (ns)"]) for row in rows] == [
        (0, 3, 3 * 4928),
        (1, 3, 3 * 4928),
    ]
    assert "a trace of torch.profiler holds no" in done.stderr


def _count_kernels(place: Path, report: Path) -> int:
    words = ("stats", f"--report={report}", "--table=cuda_gpu_kern_sum", "--format=json")
    done = invoke(*words, directory=place)
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["cuda_gpu_kern_sum"][0]["Instances"])


@pytest.mark.parametrize("name", ["trace.json", "a.pt.trace.json.gz"])
def test_a_trace_that_is_written_again_under_its_name_is_read_again(
    tmp_path: Path, name: str
) -> None:
    folder = reporting_here(tmp_path) / "traces"
    folder.mkdir()
    for count in (3, 5):
        trace = _write(folder / name, _list_events(count))
        assert _count_kernels(tmp_path, trace) == count
        if name.endswith(".gz"):
            assert _count_kernels(tmp_path, folder) == count
        (export,) = folder.glob("*.sqlite")
        os.utime(export, (1, 1))  # long before the next one is written


def test_a_trace_is_not_read_from_another_report_of_its_name(tmp_path: Path) -> None:
    trace = _write(tmp_path / "rank0.pt.trace.json", _list_events())
    of_nsys = ROOT / "tests" / "data" / "annotated" / "gemm" / "rank0.sqlite.gz"
    (tmp_path / "rank0.sqlite.gz").write_bytes(of_nsys.read_bytes())
    with pytest.raises(ReportError, match=r"gz is not an export of rank0\.pt\.trace\.json\. Mo"):
        find_reports([str(trace)])


def test_a_directory_says_which_trace_its_report_hides(tmp_path: Path) -> None:
    place = reporting_here(tmp_path)
    folder = place / "both"
    folder.mkdir()
    _write(folder / "rank0.pt.trace.json", _list_events())
    of_nsys = ROOT / "tests" / "data" / "annotated" / "gemm" / "rank0.sqlite.gz"
    (folder / "rank0.sqlite.gz").write_bytes(of_nsys.read_bytes())
    said = "note: rank0.pt.trace.json is not read: rank0.sqlite.gz is of nsys. Move one of them\n"
    assert said in invoke("stats", f"--report={folder}", directory=place).stderr
    named = invoke("stats", f"--report={folder / 'rank0.sqlite.gz'}", directory=place)
    assert (named.returncode, "is not read" in named.stderr) == (0, False)


def test_a_trace_of_another_user_is_read_without_a_file_beside_it(tmp_path: Path) -> None:
    folder = reporting_here(tmp_path) / "theirs"
    folder.mkdir()
    trace = _write(folder / "a.pt.trace.json", _list_events(2))
    try:
        os.chown(folder, 65534, 65534)
    except PermissionError:
        pytest.skip("only root can make a directory of another user")
    assert _count_kernels(tmp_path, trace) == 2
    assert list(folder.iterdir()) == [trace]


def test_collectives_have_the_communicator_and_size_of_their_process_group(tmp_path: Path) -> None:
    """Rank 1 comes 300 us later each time; both end together."""
    arguments = {"Collective name": "allreduce", "In msg nelems": 500_000, "dtype": "BFloat16"}
    group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for rank in range(2):
        events = []
        for number in range(20):
            start, late = 1000 * number, 300 * rank
            ids = {"correlation": number, "device": rank, "stream": 20}
            launch = _event("cuda_runtime", "cudaLaunchKernelExC", f"{start}", "5", 40, 40, **ids)
            length = f"{500 - late}.{rank}"
            kernel = {**arguments, **group, **ids}
            events += [launch, _event("kernel", name, f"{start + late}", length, 0, 20, **kernel)]
        facts = {"distributedInfo": {"rank": rank, "world_size": 2}, "baseTimeNanoseconds": 10**18}
        _write(tmp_path / f"host_{rank}.17.pt.trace.json", events, facts)
    done = invoke(
        *("stats", f"--report={tmp_path}", "--table=comm_sum", "--format=json"),
        directory=reporting_here(tmp_path),
    )
    rows = json.loads(done.stdout)["comm_sum"]
    assert [(row["Ranks"], row["Rank"], row["Count"]) for row in rows] == [
        (2, 0, 20),
        (2, 1, 20),
    ]
    assert [row["Moved (MB)"] for row in rows] == [20.0, 20.0]
    assert rows[0]["Wait (ns)"] == pytest.approx(20 * 300_000, rel=0.01)
    assert rows[1]["Arrived Last (%)"] == 100


@pytest.mark.parametrize(
    ("recorded_by", "kept"), [((5, 5), True), ((-1, 5), True), ((-1, -1), False)]
)
def test_waits_between_streams_name_the_event_that_they_wait_for(
    tmp_path: Path, recorded_by: tuple[int, int], kept: bool
) -> None:
    """From CUDA 12.9 on none may, and then no wait is taken for one that waits for nothing."""
    waits = []
    for number, call in enumerate(recorded_by):
        where = {"device": 0, "context": 1, "stream": 7, "correlation": 20 + number}
        event = {"wait_on_stream": 9 if call > 0 else -1, "wait_on_cuda_event_record_corr_id": call}
        waits.append(_event("cuda_sync", "Stream Wait Event", ORIGIN, "0", 0, 7, **where, **event))
    trace = _write(tmp_path / "a.pt.trace.json", [*_list_events(), *waits])
    export_trace(trace, tmp_path / "a.sqlite")
    with Database.open(tmp_path / "a.sqlite") as database:
        (note,) = describe_source(database)
        assert ("no waits between streams" in note) is not kept
        assert database.has(SYNCHRONIZATION, "eventSyncId") is kept
        if kept:
            columns = ("streamId", "correlationId", "eventSyncId")
            rows = {name: v.tolist() for name, v in database.load(CUDA_EVENT, *columns).items()}
            assert rows == {"streamId": [9], "correlationId": [5], "eventSyncId": [5]}


def _of_time(number: str) -> bytes:
    event = f'{{"ph": "X", "cat": "kernel", "name": "k", "dur": 1, "ts": {number}}}'
    return f'{{"traceEvents": [{event}]}}'.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is not a trace of torch.profiler"),
        (b'{"a": 1}', "is not a trace of torch.profiler"),
        (b'{"traceEvents": []}', "holds no GPU operation"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "name": 7}]}', "cannot be read"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel",', "is truncated"),
        (b"\x1f\x8b\x00", "damaged"),
        (_of_time('"x"'), '"x" is no time'),
        (_of_time("1e30"), "number is too large"),
        (_of_time("1e999"), "number is too large"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: bytes, reason: str) -> None:
    trace = tmp_path / ("a.json.gz" if text.startswith(b"\x1f") else "a.json")
    trace.write_bytes(text)
    with pytest.raises(ReportError, match=reason):
        export_trace(trace, tmp_path / "a.sqlite")


def test_a_trace_that_is_cut_anywhere_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    whole = _write(tmp_path / "whole.json", _list_events(2)).read_bytes()
    for number, end in enumerate(range(1, len(whole) - 1, 97)):
        (tmp_path / "cut.json").write_bytes(whole[:end])
        with pytest.raises(ReportError, match=r"cut\.json"):
            export_trace(tmp_path / "cut.json", tmp_path / f"{number}.sqlite")
    done = invoke("stats", f"--report={tmp_path / 'cut.json'}", directory=reporting_here(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (6, "", 1)
    assert not (tmp_path / "cut.sqlite").exists()


def _list_ranges(trace: Path) -> list[tuple[int, str, int]]:
    """(domain, text, number) of each range, in time order."""
    export = trace.with_name(f"{trace.name}.sqlite")
    export_trace(trace, export)
    with Database.open(export) as database:
        rows = database.load(NVTX, "start", "domainId", "textId", "int64Value?")
        names = database.names(rows["textId"])
        order = sorted(range(len(rows["start"])), key=lambda row: int(rows["start"][row]))
        return [
            (int(rows["domainId"][row]), names[text], max(-1, int(rows["int64Value"][row])))
            for row in order
            if (text := int(rows["textId"][row])) > 0
        ]


def test_marks_are_ranges_of_their_domain(tmp_path: Path) -> None:
    """As annotate/gpu_profile_marks/torch_trace.py writes them; a user's own stay the user's."""
    names = ("ProfilerStep#12", "gpu-profile:forward h.3|Attention|model.py:7", "mine")
    calls = _event("python_function", "nn.Module: Linear_0", "1", "1", 40, 40)
    marks = [
        _event("user_annotation", name, f"{number}", "9", 40, 40)
        for number, name in enumerate(names)
    ]
    ranges = _list_ranges(_write(tmp_path / "a.pt.trace.json", [*marks, calls]))
    assert ranges == [
        (2, "step", 12),
        (2, "forward h.3|Attention|model.py:7", -1),
        (0, "mine", -1),
    ]


def test_calls_of_modules_are_told_by_what_is_around_them(tmp_path: Path) -> None:
    """with_stack=True writes them, in no order, beside a hundred times as many other functions."""
    calls = [
        ("nn.Module: Linear_1", 5, 2, 40),
        ("nn.Module: Gpt_0", 1, 9, 40),
        ("model.py(7): forward", 1, 9, 40),
        ("nn.Module: Block_0", 2, 6, 40),
        ("nn.Module: Linear_0", 3, 2, 40),
        ("nn.Module: Loader", 4, 1, 41),
        ("nn.Module: Block_1", 8, 1, 40),
    ]
    events = [
        _event("python_function", name, f"{start}", f"{length}", 40, thread)
        for name, start, length, thread in calls
    ]
    step = _event("user_annotation", "ProfilerStep#0", "0", "20", 40, 40)
    ranges = _list_ranges(_write(tmp_path / "a.pt.trace.json", [step, *events]))
    assert ranges == [
        (0, "ProfilerStep#0", -1),
        (2, "forward |Gpt|", -1),
        (2, "forward Block.0|Block|", -1),
        (2, "forward Block.0.Linear.0|Linear|", -1),
        (2, "forward |Loader|", -1),
        (2, "forward Block.0.Linear.1|Linear|", -1),
        (2, "forward Block.1|Block|", -1),
    ]
