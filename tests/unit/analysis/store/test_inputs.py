"""Reports of other versions, other shapes and of only some ranks: read as what they are."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import GRAPH, KERNEL, MEMCPY, NVTX, RUNTIME
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.formats.table_formats import to_csv
from tests.further import keep_first
from tests.reading import analyse_reports, diagnose_reports
from tests.unit.analysis.make import Rows, make_report, process, thread

EVERY = {**ANALYSES, **OURS}
# What differs of itself: the file's name; RangeIds are row numbers.
SAME = [name for name in EVERY if name not in ("capture_health", "nvtx_gpu_proj_trace")]


def newer(database: sqlite3.Connection) -> None:
    """3.30: more columns, and since nsys 2025.6 no order of rows at all."""
    database.execute(
        "UPDATE META_DATA_EXPORT SET value = '3.30.1' WHERE name = 'EXPORT_SCHEMA_VERSION'"
    )
    for table in (KERNEL, RUNTIME, MEMCPY, NVTX):
        database.execute(f"CREATE TABLE shuffled AS SELECT * FROM {table}")
        database.execute(f"DELETE FROM {table}")
        database.execute(
            f"INSERT INTO {table} SELECT * FROM shuffled ORDER BY (rowid * 7919) % 10007, rowid"
        )
        database.execute("DROP TABLE shuffled")
        database.execute(f"ALTER TABLE {table} ADD COLUMN clusterX INTEGER")
    database.execute("CREATE TABLE CUDA_GRAPH_HOST_NODE (start INTEGER)")


def older(database: sqlite3.Connection) -> None:
    """3.1: the facts of the export under their old name, and columns that were not there yet."""
    database.execute(
        "UPDATE META_DATA_EXPORT SET value = '3.1.7' WHERE name = 'EXPORT_SCHEMA_VERSION'"
    )
    database.execute("ALTER TABLE META_DATA_EXPORT RENAME TO EXPORT_META_DATA")
    for table in (KERNEL, MEMCPY, "CUPTI_ACTIVITY_KIND_MEMSET"):
        database.execute(f"ALTER TABLE {table} DROP COLUMN greenContextId")
    database.execute(f"ALTER TABLE {MEMCPY} DROP COLUMN copyCount")
    database.execute(f"ALTER TABLE {NVTX} DROP COLUMN binaryData")
    database.execute("DROP TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES")
    database.execute("DROP TABLE DIAGNOSTIC_EVENT")


@pytest.mark.parametrize("change", keep_first(1, [newer, older]), ids=["3.30", "3.1"])
def test_another_schema_says_the_same(
    change: Callable[[sqlite3.Connection], None], short_run: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(short_run / "rank0.sqlite", tmp_path))
    with closing(sqlite3.connect(path)) as changed:
        change(changed)
        changed.commit()
    with Database.open(short_run / path.name) as recorded, Database.open(path) as database:
        for name in SAME:
            assert to_csv(EVERY[name].table(database)) == to_csv(EVERY[name].table(recorded)), name


def replays(path: Path) -> Path:
    """--cuda-graph-trace=graph: one opaque row a replay, 20 of 2 ms, launched every 3 ms."""
    here, owner, ms = thread(7), process(7), 1_000_000
    tables: dict[str, Rows] = {
        GRAPH: [
            (i * 3 * ms + 10_000, i * 3 * ms + 2 * ms + 10_000, 0, 7, 50 + i, owner)
            for i in range(20)
        ],
        RUNTIME: [(i * 3 * ms, i * 3 * ms + 5_000, here, 50 + i, 1) for i in range(20)],
        NVTX: [
            (i * 3 * ms, i * 3 * ms + 6_000, 59, here, None, 0, f"step {i}", None, None)
            for i in range(20)
        ],
    }
    return make_report(path, tables, ["cudaGraphLaunch_v10000"])


def test_graphs_alone_are_gpu_work(tmp_path: Path) -> None:
    path = replays(tmp_path / "rank0.sqlite")
    with Database.open(path) as database:
        breakdown = OURS["temporal_breakdown"].table(database)
        steps = OURS["step_sum"].table(database)
        health = OURS["capture_health"].table(database)
        kinds = {finding.kind for finding in diagnose_reports(database).findings}
    assert breakdown.column("Compute") == (20 * 2_000_000,)
    assert breakdown.column("Busy") == (67.8,)
    assert steps.column("Med") == (3_000_000.0,)
    assert health.column("Without Kernel") == (0,)
    assert "capture" not in kinds
    write_page([ReportSource(str(path))], tmp_path / "page.html")
    assert "CUDA graph" in (tmp_path / "page.html").read_text()


def test_a_rank_without_a_report_is_named_and_the_others_are_shown(
    short_run: Path, tmp_path: Path
) -> None:
    paths = [short_run / f"rank{rank}.sqlite" for rank in (3, 0, 1)]
    surveys = []
    for path in paths:
        with Database.open(path) as database:
            surveys.append(survey_report(database))
    run = run_of(surveys)
    assert run.ranks.missing == (2,)
    assert "no report of rank 2: what follows is of the others" in run.notes()
    sources = [ReportSource(str(p), scope) for p, scope in zip(paths, run.scopes, strict=True)]
    table = analyse_reports(sources, [OURS["temporal_breakdown"]], workers=1).tables[
        "temporal_breakdown"
    ]
    assert table.column("Rank") == (0, 1, 3)
    write_page(sources, tmp_path / "page.html")
    assert "3 ranks" in (tmp_path / "page.html").read_text()


def test_one_rank_has_its_page_and_hears_what_it_cannot_know(
    short_run: Path, tmp_path: Path
) -> None:
    source = ReportSource(f"{short_run}/rank1.sqlite")
    write_page([source], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "1 rank" in page
    assert "waiting and transfer cannot be told apart" in page
