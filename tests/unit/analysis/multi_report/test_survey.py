"""Ranks and clocks of a run's reports."""

import struct
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.multi_report.clocks import Clock, align_clocks
from gpu_profile.analysis.multi_report.ranks import Ranks
from gpu_profile.analysis.multi_report.survey import SURVEY_ALONE, ReportSet, run_of, survey_report
from gpu_profile.analysis.multi_report.windows import Windows
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import CONTEXT, KERNEL, NVTX
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.make import Rows, kernel, make_report, thread

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"


def run(*paths: Path) -> ReportSet:
    surveys = []
    for path in paths:
        with Database.open(path) as database:
            surveys.append(survey_report(database))
    return run_of(surveys)


def ranks(reports: ReportSet) -> list[list[int]]:
    return [list(scope.ranks.values()) for scope in reports.scopes]


def report(path: Path, more: dict[str, Rows] | None = None, pid: int = 7) -> Path:
    return make_report(
        path, {KERNEL: [kernel(1, 2, pid=pid)], **(more or {})}, ["ncclCommInitRank"]
    )


def environment(**variables: str) -> dict[str, Rows]:
    rows = [
        ("PROCESS_0:ENVIRONMENT_VARIABLE", f'{key}="{value}"') for key, value in variables.items()
    ]
    return {"META_DATA_CAPTURE": rows}


def initialised(rank: int, size: int) -> dict[str, Rows]:
    payload = struct.pack("<4Q", 1, 99, 24, 32) + struct.pack("<Qiii4x", 5, size, rank, 0)
    return {
        NVTX: [(1, 2, 59, thread(7), None, 1, None, 1, payload)],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": [(99, "No. of ranks", 8), (99, "Rank", 12)],
    }


def test_ranks_by_file_name_are_numbers(tmp_path: Path) -> None:
    paths = [report(tmp_path / f"rank{rank}.host.sqlite") for rank in (10, 2)]
    reports = run(*paths)
    assert (ranks(reports), reports.ranks.source) == ([[10], [2]], "file name")
    assert reports.ranks.missing == (0, 1, 3, 4, 5, 6, 7, 8, 9)
    assert "no report of rank 0, 1, 3" in reports.notes()[0]


def test_nccl_knows_better_than_the_environment_and_that_than_the_name(tmp_path: Path) -> None:
    plain = {**initialised(3, 4), **environment(RANK="1", WORLD_SIZE="2")}
    reports = run(report(tmp_path / "rank0.sqlite", plain))
    assert (ranks(reports), reports.ranks.source) == ([[3]], "NCCL")
    assert reports.ranks.missing == (0, 1, 2)
    reports = run(report(tmp_path / "rank9.sqlite", environment(RANK="1", WORLD_SIZE="2")))
    assert (ranks(reports), reports.ranks.source) == ([[1]], "environment")
    assert reports.ranks.missing == (0,)


def test_mpi_tells_the_ranks_of_one_report(tmp_path: Path) -> None:
    kernels = [kernel(1, 2, pid=7), kernel(1, 2, pid=8)]
    tables: dict[str, Rows] = {KERNEL: kernels, "MPI_RANKS": [(thread(7), 1), (thread(8), 0)]}
    reports = run(make_report(tmp_path / "all.sqlite", tables))
    assert (dict(reports.scopes[0].ranks), reports.ranks.source) == ({7: 1, 8: 0}, "MPI")


@pytest.mark.parametrize(
    ("contexts", "kernels", "numbers"),
    [
        ([7], [7, 7], [7]),
        ([7, 8], [7, 7], [7]),
        ([7, 8], [7, 8], [7, 8]),
        ([9], [7, 8], [7, 8]),
        ([], [7, 8], [7, 8]),
        ([7], [], []),
    ],
)
def test_a_process_counts_by_its_kernels_not_by_its_context(
    tmp_path: Path, contexts: list[int], kernels: list[int], numbers: list[int]
) -> None:
    tables: dict[str, Rows] = {
        KERNEL: [kernel(1, 2, pid=pid) for pid in kernels],
        CONTEXT: [(pid, 0) for pid in contexts],
    }
    with Database.open(make_report(tmp_path / "all.sqlite", tables)) as database:
        whole, alone = survey_report(database), SURVEY_ALONE.partial(database, Scope())
    assert [process.pid for process in whole.identity.processes] == numbers
    assert alone.identity == whole.identity


def test_a_source_that_tells_two_the_same_is_not_believed(tmp_path: Path) -> None:
    paths = [report(tmp_path / f"{name}.sqlite", environment(RANK="0")) for name in ("n1", "n0")]
    reports = run(*paths)
    assert (ranks(reports), reports.ranks.source) == ([[1], [0]], "file number")


def test_one_report_with_a_number_in_its_name_misses_no_others(tmp_path: Path) -> None:
    reports = run(report(tmp_path / "job42.sqlite"))
    assert (ranks(reports), reports.ranks.missing, reports.notes()) == ([[0]], (), [])


def test_the_recorded_ranks_share_a_clock() -> None:
    reports = run(*(DATA / f"rank{rank}.sqlite.gz" for rank in (2, 0, 3, 1)))
    assert ranks(reports) == [[2], [0], [3], [1]]
    assert reports.alignment.method == "one host"
    assert reports.alignment.residual_ns is not None
    assert reports.alignment.residual_ns < 10_000


def test_the_processes_of_one_report_are_ranked_by_gpu() -> None:
    reports = run(DATA / "all-ranks-one-report.sqlite.gz")
    assert dict(reports.scopes[0].ranks) == {954: 0, 955: 1, 956: 2, 957: 3}


def clock(host: str, utc: int, ends: list[int]) -> Clock:
    return Clock(host, utc, {"ncclDevKernel_AllReduce": np.array(ends, np.int64)})


ENDS = [1000_000 * i + 137 * i * i for i in range(40)]


@pytest.mark.parametrize("lost", [0, 3])
def test_collectives_bring_two_hosts_to_one_clock(lost: int) -> None:
    other = [end - 5_000_000_000 + 20_000_000 for end in ENDS][lost:]
    alignment = align_clocks([clock("a", 10**18, ENDS), clock("b", 10**18 + 5_000_000_000, other)])
    assert (alignment.offsets, alignment.method, alignment.residual_ns) == (
        (0, 4_980_000_000),
        "collectives",
        0,
    )


LOOP = [10_000_000 * step + place for step in range(12) for place in (0, 2_000_000, 7_000_000)]


@pytest.mark.parametrize(("host", "method"), [("a", "one host"), ("b", "collectives")])
def test_a_window_of_a_loop_is_not_shifted_by_whole_steps(host: str, method: str) -> None:
    """Every pairing by whole steps is exact; the windows begin three steps apart."""
    late = [end - 1_000_000 for end in LOOP[9:]]
    alignment = align_clocks([clock("a", 10**18, LOOP[:27]), clock(host, 10**18 + 1_000_000, late)])
    assert (alignment.offsets, alignment.method, alignment.residual_ns) == (
        (0, 1_000_000),
        method,
        0,
    )


def test_one_host_has_one_clock_whatever_its_collectives_say() -> None:
    """Ends that differ by a step are of other collectives, not a clock that is off by 10 ms."""
    alignment = align_clocks([clock("a", 10**18, LOOP[:9]), clock("a", 10**18, LOOP[20:29])])
    assert (alignment.offsets, alignment.method, alignment.residual_ns) == (
        (0, 0),
        "one host",
        None,
    )


def test_the_error_of_the_clocks_is_said(tmp_path: Path) -> None:
    jitter = [end + 400 * (-1) ** index for index, end in enumerate(ENDS)]
    reports = run(report(tmp_path / "rank0.sqlite"))
    aligned = align_clocks([clock("a", 10**18, ENDS), clock("b", 10**18 + 5, jitter)])
    assert ReportSet(reports.scopes, reports.ranks, aligned).notes() == [
        "clocks of the hosts aligned by collectives, to 0.4 us"
    ]


def test_windows_of_one_program_are_not_numbered_by_place(tmp_path: Path) -> None:
    """A server without ranks is one rank, however often it was recorded."""
    scopes = run(report(tmp_path / "rank0.sqlite")).scopes * 2
    aligned = align_clocks([clock("a", 10**18, ENDS)] * 2)

    def note(*firsts: int) -> list[str]:
        ranks = Ranks(tuple({100: first} for first in firsts), "host and GPU", ())
        return ReportSet(scopes, ranks, aligned, Windows((1, 2), firsts)).notes()

    assert not [line for line in note(0, 0) if "no report says its rank" in line]
    assert note(0, 1) == ["no report says its rank: numbered by host and GPU"]


def test_without_common_collectives_utc_is_all_there_is() -> None:
    alignment = align_clocks([clock("a", 10**18, ENDS), Clock("b", 10**18 + 5, {})])
    assert (alignment.offsets, alignment.method, alignment.residual_ns) == ((0, 5), "UTC", None)


def test_collectives_that_do_not_fit_are_not_believed() -> None:
    wild = [end * 3 for end in ENDS]
    alignment = align_clocks([clock("a", 10**18, ENDS), clock("b", 10**18 + 5, wild)])
    assert alignment.method == "UTC"
