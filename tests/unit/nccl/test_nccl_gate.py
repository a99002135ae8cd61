"""The gate of the NCCL tests: one size, no wrong value, EFA proven and never assumed."""

import dataclasses
from pathlib import Path

import pytest

from gpu_profile.errors import GateError, ReportError, SettingsError
from gpu_profile.job import Resources
from gpu_profile.nccl.floors import FLOORS, find_floor
from gpu_profile.nccl.gate import busbw_at, check_bandwidth, check_correct, draw_plot, prove_efa
from gpu_profile.nccl.measurement import Measurement
from gpu_profile.nccl.output import parse_output
from gpu_profile.nccl.suite import (
    COLLECTIVES,
    Suite,
    judge_measurements,
    list_words,
    make_jobs,
    make_suite,
    parse_collectives,
    read_results,
    redact_results,
    with_json,
    writes_json,
)

RECORDED = Path(__file__).parents[2] / "data" / "nccl-tests-all_reduce_perf-h200x4.txt"
SELECTED = (
    "a:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)"
)
USING = "a:1:2 [0] NCCL INFO Using network Libfabric"
GDRDMA = "a:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 14[6] [send] via NET/Libfabric/3/GDRDMA"


@pytest.fixture
def measured() -> Measurement:
    return parse_output(RECORDED.read_text())[0]


def test_gate_is_on_one_size(measured: Measurement) -> None:
    assert busbw_at(measured, 2**29) == 347.61
    check_bandwidth(measured, 347.61, 2**29)
    with pytest.raises(GateError, match=r"reaches 347\.61 GB/s at 512M, 347\.62 asked for"):
        check_bandwidth(measured, 347.62, 2**29)


def test_a_size_that_was_not_measured_does_not_pass(measured: Measurement) -> None:
    with pytest.raises(GateError, match=r"not measured at 1G\. It was at 8, 32, 128"):
        check_bandwidth(measured, 1.0, 2**30)


def test_nan_does_not_pass(measured: Measurement) -> None:
    row = measured.rows[-1]
    assert row.out_of_place is not None
    torn = dataclasses.replace(
        row, out_of_place=dataclasses.replace(row.out_of_place, busbw=float("nan"))
    )
    with pytest.raises(GateError, match="nan"):
        check_bandwidth(dataclasses.replace(measured, rows=(torn,)), 1.0, 2**29)


def test_wrong_values_do_not_pass(measured: Measurement) -> None:
    row = measured.rows[-1]
    assert row.in_place is not None
    wrong = dataclasses.replace(row, in_place=dataclasses.replace(row.in_place, wrong=3))
    check_correct(measured)
    with pytest.raises(GateError, match="gave 3 wrong values at 512M"):
        check_correct(dataclasses.replace(measured, rows=(wrong,)))
    with pytest.raises(GateError, match="counts 2 values out of bounds"):
        check_correct(dataclasses.replace(measured, out_of_bounds=2))


def test_efa_proven() -> None:
    transport = prove_efa(f"{SELECTED}\n{USING}\n{GDRDMA}\n", nics=32)
    assert (transport.provider, transport.network) == ("efa-direct", "Libfabric")
    assert (transport.nics, transport.gpu_direct) == (32, True)


def test_efa_proven_by_old_spellings() -> None:
    old = "NCCL INFO NET/OFI Selected Provider is efa\nNCCL INFO Using network AWS Libfabric\n"
    transport = prove_efa(old)
    assert (transport.provider, transport.nics, transport.gpu_direct) == ("efa", None, False)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", "no line 'NET/OFI Selected provider is efa'"),
        (SELECTED, "no line 'Using network Libfabric'"),
        (f"{SELECTED}\n{USING}\nb NCCL INFO Using network Socket\n", "used sockets and not EFA"),
        (f"{SELECTED}\n{USING}\nb NCCL INFO NET/Socket : Using [0]eth0\n", "used sockets"),
        (f"{SELECTED}\n{USING}\nb NCCL INFO Using network IB\n", "the network IB, not Libfabric"),
        (SELECTED.replace("is efa,", "is tcp,") + f"\n{USING}\n", "provider is tcp, not efa"),
        (SELECTED.replace("32", "31") + f"\n{USING}\n", "found 31 NICs on a node, 32 expected"),
        (f"{SELECTED}\n{SELECTED.replace('32', '1')}\n{USING}\n", "found 1, 32 NICs"),
    ],
)
def test_efa_not_proven(log: str, said: str) -> None:
    with pytest.raises(GateError, match=said):
        prove_efa(log, nics=32)


def test_efa_not_proven_by_a_recorded_log_of_sockets() -> None:
    log = (RECORDED.parent / "nccl-tests" / "all_reduce-per-iteration-debug.txt").read_text()
    with pytest.raises(GateError, match=r"used sockets and not EFA: .* NET/Socket : Using"):
        prove_efa(log)


def test_floors_are_nine_tenths_of_what_was_measured(measured: Measurement) -> None:
    assert find_floor("h200x4", 2**29).measured_gbs == busbw_at(measured, 2**29)
    assert find_floor("p5.48xlarge", 2**30).busbw == pytest.approx(393.26, abs=0.01)
    assert all(row.source and row.busbw < row.measured_gbs for row in FLOORS)


@pytest.mark.parametrize(
    ("platform", "size", "said"),
    [("p9.48xlarge", 2**30, "name one of p4de"), ("p5.48xlarge", 8, "--at with one of 128M, 1G")],
)
def test_floors_refused(platform: str, size: int, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        find_floor(platform, size)


def test_plot(measured: Measurement) -> None:
    lines = draw_plot(measured).splitlines()
    assert lines[0] == "all_reduce_perf: busbw in GB/s over 4 ranks"
    assert lines[1] == "     8     0.00 |"
    assert lines[-1] == "  512M   347.61 |" + "#" * 40
    assert len(lines) == 15


def test_plot_leaves_out_what_is_too_small_to_be_split() -> None:
    """alltoall rounds 8 bytes over 4 ranks down to none."""
    text = (RECORDED.parent / "nccl-tests" / "alltoall.txt").read_text()
    assert draw_plot(parse_output(text)[0]).splitlines()[1].startswith("   128 ")


def test_argv() -> None:
    words = list_words("all_gather", Suite(max_size=2**31), gpus_per_process=8)
    assert " ".join(words) == "all_gather_perf -b 8 -e 2147483648 -f 2 -g 8 -c 1 -T 600"


@pytest.mark.parametrize(
    ("version", "known"),
    [("v2.19.6", True), ("2.17.3", True), ("v2.17.2", False), ("2.9", False), ("", False)],
)
def test_json_from_2_17_3_on(version: str, known: bool) -> None:
    assert writes_json(version) is known


def test_one_process_on_one_node_and_one_a_gpu_over_several() -> None:
    suite = Suite(collectives=("all_reduce", "alltoall"), efa=True)
    here = make_jobs(suite, name="n", image=None, resources=Resources(gpus_per_node=4))
    assert [job.name for job in here] == ["n-all-reduce", "n-alltoall"]
    assert here[0].command[7:9] == ("-g", "4")
    wide = Resources(nodes=2, gpus_per_node=8, tasks_per_node=8)
    there = make_jobs(suite, name="n", image=None, resources=wide)
    assert there[0].command[7:9] == ("-g", "1")
    written = with_json(there[0], "all_reduce", "/wd/n")
    assert written.command[-2:] == ("-J", "/wd/n/all_reduce.nccl.json")
    assert there[0].env["NCCL_DEBUG"] == "INFO"
    assert there[0].profile is None


def test_results_come_from_the_table_where_there_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text(RECORDED.read_text())
    results = read_results(tmp_path, "all_reduce")
    judge_measurements([results], Suite(min_busbw=300.0, at=2**29))
    with pytest.raises(GateError, match="no line 'NET/OFI"):
        judge_measurements([results], Suite(efa=True), [RECORDED.read_text()])


def test_results_from_json_and_their_redaction(tmp_path: Path) -> None:
    text = (RECORDED.parent / "nccl-tests" / "all_reduce.json").read_text()
    leaky = text.replace('"env": [', '"env": ["HF_TOKEN=hf_secret", ')
    for name in ("all_reduce.nccl.json", "all_reduce.nccl.json.0"):
        (tmp_path / name).write_text(leaky)
    redact_results(tmp_path)
    assert read_results(tmp_path, "all_reduce").rows[-1].size == 2**29
    assert not any("hf_secret" in path.read_text() for path in tmp_path.iterdir())


def test_results_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"neither all_reduce\.nccl\.json nor output\.log"):
        read_results(tmp_path, "all_reduce")


def test_collectives() -> None:
    assert parse_collectives("all") == COLLECTIVES
    assert parse_collectives("all_reduce, sendrecv_perf,all_reduce") == ("all_reduce", "sendrecv")


@pytest.mark.parametrize("text", ["", ",", "allreduce", "all,all_reduce", "../../bin/sh"])
def test_collectives_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="Use all or of"):
        parse_collectives(text)


@pytest.mark.parametrize(
    ("busbw", "at", "top"), [(0.0, "1G", ""), (1.0, "3G", ""), (1.0, "2G", "1G"), (1.0, "4", "")]
)
def test_flags_refused(busbw: float, at: str, top: str) -> None:
    with pytest.raises(SettingsError):
        make_suite("all_reduce", min_busbw=busbw, at=at, max_size=top)


def test_flags_widen_the_sizes_to_the_gate() -> None:
    assert make_suite("all_reduce", min_busbw=400.0, at="16G").max_size == 2**34
