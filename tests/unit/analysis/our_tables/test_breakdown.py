"""Our tables on the recorded run: the numbers that were worked out by hand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.states import STATES
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.our_tables.temporal_breakdown import LABELS
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.table import Table
from tests.unit.analysis.synthetic import ranks_of

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"


@pytest.fixture(scope="module")
def one_report() -> Iterator[Database]:
    with Database.open(DATA / "all-ranks-one-report.sqlite.gz") as database:
        yield database


@pytest.fixture(scope="module")
def four_reports() -> Iterator[tuple[list[Database], tuple[Scope, ...]]]:
    databases = [Database.open(DATA / f"rank{rank}.sqlite.gz") for rank in range(4)]
    yield databases, run_of([survey_report(database) for database in databases]).scopes
    for database in databases:
        database.close()


def ms(table: Table, column: str) -> list[float]:
    return [round(float(cell or 0) / 1e6, 1) for cell in table.column(column)]


def test_breakdown_by_rank(one_report: Database) -> None:
    table = OURS["temporal_breakdown"].table(one_report)
    assert ms(table, "Span") == [307.9, 302.7, 305.8, 305.9]
    assert ms(table, "Compute") == [114.4, 155.7, 155.2, 158.9]
    idle = [round(100 - float(busy or 0), 1) for busy in table.column("Busy")]
    assert idle == [60.1, 2.4, 4.0, 1.9]
    hidden = [round(float(cell or 0), 1) for cell in table.column("Comm Hidden")]
    assert hidden == [15.9, 42.6, 42.7, 43.7]
    exposed = zip(ms(table, "Exposed Comm Wait"), ms(table, "Exposed Comm Transfer"), strict=True)
    assert [round(wait + move, 1) for wait, move in exposed] == [5.9, 139.1, 137.7, 140.7]


def test_kernel_classes_sum_to_the_kernels(one_report: Database) -> None:
    classes = OURS["kernel_class_sum"].table(one_report)
    kernels = ANALYSES["cuda_gpu_kern_sum"].table(one_report)
    for column in ("Total Time", "Instances"):
        sums = [
            sum(int(cell or 0) for cell in table.column(column)) for table in (classes, kernels)
        ]
        assert sums[0] == sums[1]
    assert classes.column("Class")[:3] == ("communication", "GEMM", "attention")
    assert "other" not in classes.column("Class")


def assert_sums_to_the_span(table: Table) -> None:
    columns = [table.column(LABELS[state]) for state in STATES]
    sums = [sum(int(cell or 0) for cell in row) for row in zip(*columns, strict=True)]
    assert sums == list(table.column("Span"))


def test_breakdown_sums_to_the_span(one_report: Database) -> None:
    assert_sums_to_the_span(OURS["temporal_breakdown"].table(one_report))


@pytest.mark.parametrize("rows", ["rowid = 1", "rowid = 3", "rowid = 2", "1"])
def test_operations_of_no_length_leave_no_time_out(tmp_path: Path, rows: str) -> None:
    """The first one, the last one, one between, or all: a damaged page had such rows."""
    (rank,) = ranks_of(1)
    for _ in range(3):
        rank.work(10)
        rank.kernel(100)
    path = rank.recording.save(tmp_path / "rank0.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute(f'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = start WHERE {rows}')
        database.commit()
    with Database.open(path) as report:
        assert_sums_to_the_span(OURS["temporal_breakdown"].table(report))


def test_rank_0_idles_because_its_host_is_late(one_report: Database) -> None:
    table = OURS["temporal_breakdown"].table(one_report)
    first = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    idle = sum(float(first[LABELS[state]] or 0) for state in STATES if state.startswith("idle"))
    late = ("idle_launch", "idle_stall", "idle_sync", "idle_profiler")
    host = sum(float(first[LABELS[state]] or 0) for state in late)
    assert round(100 * host / idle, 1) == 94.9


def test_all_reduce_is_wait_and_not_transfer(one_report: Database) -> None:
    table = OURS["comm_sum"].table(one_report)
    waits = [float(cell or 0) / 1e6 for cell in table.column("Wait")]
    moves = [float(cell or 0) / 1e6 for cell in table.column("Transfer")]
    assert round(sum(waits), 1) == 715.7
    assert round(sum(moves), 1) == 23.9
    assert [round(wait, 1) for wait in waits] == [1.1, 236.2, 234.2, 244.1]
    assert [round(move, 2) for move in moves] == [5.93, 6.04, 5.99, 5.90]
    assert table.column("Arrived Last") == (98.33, 1.67, 0.0, 0.0)


def test_bus_bandwidth_is_what_nccl_tests_measures(one_report: Database) -> None:
    """50.4 MB of gradients a step in buckets of up to 25 MB; nccl-tests: 202 GB/s at 8 MB, 288
    at 34 MB on the same machine."""
    table = OURS["comm_sum"].table(one_report)
    assert table.column("Moved") == (1008.763,) * 4
    assert all(230 < float(cell or 0) < 280 for cell in table.column("Bus BW"))


def test_backward_has_the_autograd_threads_work(one_report: Database) -> None:
    table = OURS["range_gpu_sum"].table(one_report)
    parts = {
        row[0]: (row[2], round(float(row[3] or 0) / 1e6, 1), round(float(row[6] or 0) / 1e6, 1))
        for row in table.rows
    }
    assert parts["forward"] == (5680, 150.7, 198.6)
    assert parts["backward"] == (25360, 1159.8, 962.0)
    assert parts["optimizer"] == (640, 23.9, 32.3)
    assert parts["step"] == (31760, 1334.8, 1217.0)
    assert parts["(no range)"][0] == 4


def test_ranges_nest(one_report: Database) -> None:
    table = OURS["range_gpu_sum"].table(one_report)
    rows = {row[0]: row for row in table.rows}
    assert rows["step"][5] == 0  # every operation of a step is in an inner range
    assert rows["backward"][4] == rows["backward"][5]
    assert rows["step"][1] == 80


def test_steps(one_report: Database) -> None:
    table = OURS["step_sum"].table(one_report)
    assert table.column("Steps") == (19,) * 4
    assert table.column("Found By") == ("range step",) * 4
    assert [round(float(cell or 0) / 1e6, 1) for cell in table.column("Avg")] == [15.3] * 4


def test_deep_queues_on_the_ranks_that_wait(one_report: Database) -> None:
    table = OURS["launch_sum"].table(one_report)
    depth = {
        rank: max(int(row[-1] or 0) for row in table.rows if row[0] == rank) for rank in range(4)
    }
    assert depth[0] < 20
    assert min(depth[rank] for rank in (1, 2, 3)) > 1000


def test_the_largest_gaps_come_first(one_report: Database) -> None:
    first = OURS["idle_gaps"].table(one_report).rows[0]
    assert first[:4] == (0, "launch", "backward", "cudaLaunchKernel_v7000")


def test_a_sound_capture(one_report: Database) -> None:
    table = OURS["capture_health"].table(one_report)
    assert table.column("Without Call") == (0,) * 4
    assert table.column("Without Kernel") == (0,) * 4
    assert table.column("Losses") == (None,) * 4


def test_four_reports_are_one_run(
    four_reports: tuple[list[Database], tuple[Scope, ...]],
) -> None:
    analysis = OURS["comm_sum"]
    pairs = list(zip(*four_reports, strict=True))
    table = analysis.merge([analysis.partial(database, scope) for database, scope in pairs])
    assert table.column("Ranks") == (4,) * 4
    assert table.column("Count") == (60,) * 4
    last = [round(float(cell or 0) * 60 / 100) for cell in table.column("Arrived Last")]
    assert sum(last) == 60
    assert max(last) < 40  # no rank comes last steadily
    moves = [float(cell or 0) / 1e6 for cell in table.column("Transfer")]
    assert moves == pytest.approx([6.03] * 4, abs=0.05)
    backwards = [analysis.partial(database, scope) for database, scope in reversed(pairs)]
    assert analysis.merge(backwards) == table


def test_one_rank_alone_cannot_split_its_communication() -> None:
    with Database.open(DATA / "rank1.sqlite.gz") as database:
        table = OURS["comm_sum"].table(database)
        assert table.rows[0][:2] == (None, None)
        assert table.rows[0][6:8] == (None, None)
        breakdown = OURS["temporal_breakdown"].table(database)
    assert ms(breakdown, "Exposed Comm Unsplit") == [296.6]
    assert ms(breakdown, "Exposed Comm Wait") == [0.0]


def test_no_gpu_work_gives_tables_without_rows(tmp_path: Path) -> None:
    rank = ranks_of(1)[0]
    rank.work(1000)
    rank.range("step", 0)
    with Database.open(rank.recording.save(tmp_path / "host.sqlite")) as database:
        rows = {name: len(analysis.table(database).rows) for name, analysis in OURS.items()}
    assert rows == {**dict.fromkeys(OURS, 0), "capture_health": 1}
