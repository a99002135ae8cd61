"""nccl-tests' output, recorded on four H200s and in the forms that its options give it."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.nccl.measurement import make_table, parse_size, size_text
from gpu_profile.nccl.output import parse_output
from gpu_profile.nccl.results_json import parse_json, redact_json

DATA = Path(__file__).parents[2] / "data"
RECORDED, RUNS = DATA / "nccl-tests-all_reduce_perf-h200x4.txt", DATA / "nccl-tests"
HEADER = "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
ROW = "        1024           256     float     sum      -1    30.00    1.00    1.50       0"
HALF = "    31.00    2.00    3.00       0"


def document(**changes: Any) -> str:
    half = {"time": 27.26, "alg_bw": 0.5, "bus_bw": 0.75, "nwrong": 0.0}
    result = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1"}
    whole = {
        "version": 3,
        "start_time": "2026-01-01 00:00:00",
        "args": ["/opt/nccl-tests/bin/all_reduce_perf", "-b", "8"],
        "env": ["NCCL_DEBUG=INFO", "HF_TOKEN=hf_secret", "PATH=/usr/bin"],
        "nccl_version": 22809,
        "config": {"devices": [{"rank": 0, "device_info": "NVIDIA H200"}]},
        "results": [result | {"out_of_place": half, "in_place": half}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 0.75, "okay": "unchecked"},
        "end_time": "2026-01-01 00:00:01",
    }
    return json.dumps(whole | changes)


def test_recorded_numbers_are_those_of_the_table() -> None:
    (measured,) = parse_output(RECORDED.read_text())
    lines = [line.split() for line in RECORDED.read_text().splitlines() if line.startswith("  ")]
    assert len(measured.rows) == len(lines) == 14
    for row, words in zip(measured.rows, lines, strict=True):
        out, into = row.out_of_place, row.in_place
        assert out is not None
        assert into is not None
        numbers = (row.size, row.count, row.root, out.time_us, out.algbw, out.busbw, out.wrong)
        assert numbers == tuple(float(word) for word in (*words[:2], *words[4:9]))
        assert (into.time_us, into.algbw, into.busbw, into.wrong) == tuple(map(float, words[9:]))


def test_recorded_head_and_foot() -> None:
    (measured,) = parse_output(RECORDED.read_text())
    assert measured.collective == "all_reduce_perf"
    assert measured.version == "2.19.6"
    assert measured.devices == ("NVIDIA H200",) * 4
    assert measured.out_of_bounds == 0
    assert measured.average_busbw == 93.475


def test_recorded_average_is_that_of_the_rows() -> None:
    (measured,) = parse_output(RECORDED.read_text())
    halves = [h.busbw for r in measured.rows for h in (r.out_of_place, r.in_place) if h]
    assert sum(halves) / len(halves) == pytest.approx(measured.average_busbw, abs=0.01)


@pytest.mark.parametrize("prefix", ["", "0: ", " 3: ", "[1,0]<stdout>:"])
def test_launchers_prefixes_are_taken_off(prefix: str) -> None:
    text = "\n".join(prefix + line for line in RECORDED.read_text().splitlines())
    assert parse_output(text) == parse_output(RECORDED.read_text())


def test_other_lines_between_are_left_out() -> None:
    text = f"{HEADER}\nvm:27:27 [0] NCCL INFO Channel 00/24\n{ROW}{HALF}\n12 things\n"
    (measured,) = parse_output(text, "all_reduce_perf")
    assert [row.size for row in measured.rows] == [1024]
    assert measured.collective == "all_reduce_perf"


def test_two_runs_in_one_log() -> None:
    text = RECORDED.read_text()
    both = parse_output(text + text.replace("all_reduce", "all_gather"))
    assert [m.collective for m in both] == ["all_reduce_perf", "all_gather_perf"]
    assert both[0].rows == both[1].rows


@pytest.mark.parametrize(
    ("header", "row"),
    [
        pytest.param(HEADER, f"{ROW}{HALF}", id="plain"),
        pytest.param(
            f"{HEADER} i_min i_max i_p99 i_cv%",
            f"{ROW} 1 2 3 4{HALF} 1 2 3 4",
            id="per iteration, -I 1",
        ),
        pytest.param(
            f"{HEADER} timestamp", f"{ROW}{HALF}  2026-01-01 10:00:00", id="time stamps, -S 1"
        ),
    ],
)
def test_forms_of_the_table(header: str, row: str) -> None:
    (measured,) = parse_output(f"{header}\n{row}\n")
    out, into = measured.rows[0].out_of_place, measured.rows[0].in_place
    assert out is not None
    assert into is not None
    assert (out.time_us, out.algbw, out.busbw, out.wrong) == (30.0, 1.0, 1.5, 0)
    assert (into.time_us, into.algbw, into.busbw, into.wrong) == (31.0, 2.0, 3.0, 0)


def test_a_half_that_was_not_measured() -> None:
    (measured,) = parse_output(f"{HEADER}\n{ROW}\n")
    assert measured.rows[0].out_of_place is None
    assert measured.rows[0].busbw == 1.5
    assert make_table(measured).rows[0][4:8] == (None,) * 4


def test_unchecked_values_are_none() -> None:
    (measured,) = parse_output(f"{HEADER}\n{ROW[:-1]}N/A{HALF}\n")
    assert measured.rows[0].out_of_place is not None
    assert measured.rows[0].out_of_place.wrong is None


def test_a_torn_row_is_refused() -> None:
    with pytest.raises(ReportError, match="The row of 1024 bytes is torn"):
        parse_output(f"{HEADER}\n{ROW} vm:1:1 [0] NCCL INFO\n")


def test_no_table_tells_the_last_line() -> None:
    with pytest.raises(ReportError, match="its last line: all_reduce_perf: no such file"):
        parse_output("starting\nall_reduce_perf: no such file\n\n")


@pytest.mark.parametrize("name", ["all_reduce", "alltoall"])
def test_json_and_table_of_one_run_say_the_same(name: str) -> None:
    """Recorded on four H200s; the table has two decimals and the JSON six."""
    (shown,) = parse_output((RUNS / f"{name}.txt").read_text())
    written = parse_json((RUNS / f"{name}.json").read_text())
    assert shown.collective == written.collective == f"{name}_perf"
    assert shown.devices == written.devices == ("NVIDIA H200",) * 4
    assert shown.average_busbw == pytest.approx(written.average_busbw, abs=1e-4)
    for row, exact in zip(shown.rows, written.rows, strict=True):
        for half, other in ((row.out_of_place, exact.out_of_place), (row.in_place, exact.in_place)):
            assert half is not None
            assert other is not None
            assert half.wrong == other.wrong
            for number in ("time_us", "algbw", "busbw"):
                assert getattr(half, number) == pytest.approx(getattr(other, number), abs=0.00501)


def test_recorded_per_iteration_columns_between_debug_lines() -> None:
    (measured,) = parse_output((RUNS / "all_reduce-per-iteration-debug.txt").read_text())
    assert [row.busbw for row in measured.rows] == [312.16, 327.57, 339.59, 347.35]
    assert measured.rows[-1].in_place is not None
    assert measured.rows[-1].in_place.busbw == 346.74


def test_recorded_cycles_without_checks() -> None:
    text = (RUNS / "broadcast-unchecked-cputime-two-cycles.txt").read_text()
    (measured,) = parse_output(text)
    assert [row.size for row in measured.rows] == [2**20, 2**21, 2**22] * 2
    assert all(row.out_of_place and row.out_of_place.wrong is None for row in measured.rows)


def test_json() -> None:
    measured = parse_json(document())
    assert measured.collective == "all_reduce_perf"
    assert measured.devices == ("NVIDIA H200",)
    assert (measured.out_of_bounds, measured.average_busbw) == (0, 0.75)
    assert measured.rows[0].out_of_place == measured.rows[0].in_place
    assert (measured.rows[0].busbw, measured.rows[0].root) == (0.75, -1)


def test_json_with_nulls_nans_and_cpu_time() -> None:
    half = {"cpu_time": 1.0, "alg_bw": "nan", "bus_bw": 2.0, "nwrong": None}
    result = json.loads(document())["results"][0] | {"out_of_place": None, "in_place": half}
    row = parse_json(document(results=[result])).rows[0]
    assert row.out_of_place is None
    assert row.in_place is not None
    assert (row.in_place.time_us, row.in_place.wrong) == (1.0, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (document()[:-30], "is cut"),
        ("[]", "not an object"),
        ("{}", "not in a form known here"),
        (document(results=[{"size": 8}]), "not in a form known here"),
    ],
)
def test_json_refused(text: str, said: str) -> None:
    with pytest.raises(ReportError, match=said):
        parse_json(text)


def test_redaction_keeps_the_numbers_and_hides_the_environment() -> None:
    redacted = redact_json(document())
    assert "hf_secret" not in redacted
    assert "NCCL_DEBUG=INFO" in redacted
    assert parse_json(redacted) == parse_json(document())


def test_redaction_drops_what_it_cannot_read() -> None:
    assert "hf_secret" not in redact_json(document()[:-30])


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("64K", 65536), ("1g", 2**30), ("2GiB", 2**31), ("512MB", 2**29)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "1X", "0"])
def test_sizes_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a size"):
        parse_size(text)
