"""Crafted reports: one line that says why, or the right numbers; in bounded time and memory."""

import resource
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.multi_report.work import ReportSource, Work
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.sqlite.text import LONGEST_TEXT
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.errors import GpuProfileError, ReportError
from tests.further import keep_first
from tests.fuzz.child import Outcome, check_in_child
from tests.fuzz.craft import CRAFTED, KERNEL, empty_index, long_name, rowids_far_apart
from tests.fuzz.pages import recorded

KINDS = (*range(16), 127, 128, 255)
"""First bytes of a page. SQLite's kinds are 2, 5, 10 and 13: https://sqlite.org/fileformat.html"""
EVERY_TABLE = tuple({**ANALYSES, **OURS}.values())


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "rank0.sqlite"
    path.write_bytes(recorded())
    return path


@pytest.mark.parametrize("name", keep_first(6, CRAFTED))
def test_a_crafted_report_is_refused_in_a_line(report: Path, name: str) -> None:
    change, reason = CRAFTED[name]
    change(report)

    def check() -> Outcome:
        answer = Work(ReportSource(str(report)), EVERY_TABLE).do()
        return (
            Outcome("refused", str(answer)) if isinstance(answer, ReportError) else Outcome("READ")
        )

    outcome = check_in_child(check)
    assert outcome.label == "refused", outcome
    assert reason in outcome.note
    assert outcome.note.isprintable()


def test_rowids_that_lie_far_apart_are_read(report: Path) -> None:
    rowids_far_apart(report)
    with closing(sqlite3.connect(report)) as database:
        rows = database.execute(f"SELECT start, end FROM {KERNEL} ORDER BY rowid").fetchall()
    with Database.open(report) as database:
        ours = database.load(KERNEL, "start", "end", sort=False)
        by_sql = database._store._from_sql(KERNEL, ["start", "end"], {})  # type: ignore[attr-defined]
    assert np.array_equal(np.array(rows).T, [ours["start"], ours["end"]])
    assert np.array_equal(np.array(rows).T, by_sql)


def test_an_index_that_lacks_the_rows_hides_none(report: Path) -> None:
    with Database.open(report) as database:
        sound = database.load(KERNEL, "start", only={"deviceId": [0]}, sort=False)["start"]
    empty_index(report)
    with Database.open(report) as database:
        by_sql = database._store._from_sql(KERNEL, ["start"], {"deviceId": [0]})  # type: ignore[attr-defined]
    assert len(sound)
    assert np.array_equal(by_sql[0], sound)


@pytest.mark.further
def test_the_schemas_text_is_read_in_linear_time(report: Path) -> None:
    """12 MB of it took 100 s when WITHOUT ROWID was searched for in it."""
    text = f") {'WITHOUT ROWID ' * 4500})"
    with closing(sqlite3.connect(report)) as database:
        for number in range(200):
            database.execute(f"CREATE TABLE T{number} (a DEFAULT '{text}')")

    def check() -> Outcome:
        with Database.open(report) as database:
            return Outcome("same" if database.count(KERNEL) else "NO rows")

    outcome = check_in_child(check)
    assert outcome.label == "same", outcome


def test_a_long_name_is_cut_and_told(report: Path) -> None:
    long_name(report, 30_000_000)

    def check() -> Outcome:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with Database.open(report) as database:
            (name, *_) = ANALYSES["cuda_gpu_kern_sum"].table(database).column("Name")
            notes = database.notes
        assert len(str(name)) < 2 * LONGEST_TEXT
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
        return Outcome("same", str(notes))

    outcome = check_in_child(check)
    assert outcome.label == "same", outcome
    assert f"texts longer than {LONGEST_TEXT:,} bytes are cut there" in outcome.note


def test_names_that_are_not_utf8_are_shown_and_told(report: Path) -> None:
    with closing(sqlite3.connect(report, isolation_level=None)) as database:
        database.execute("UPDATE StringIds SET value = CAST(x'ff41fe' AS TEXT)")
    with Database.open(report) as database:
        names = set(ANALYSES["cuda_gpu_kern_sum"].table(database).column("Name"))
        assert names == {"\ufffdA\ufffd"}
        (note,) = database.notes
    assert "are not UTF-8" in note


def test_sqlite_reads_no_cell_out_of_its_page(report: Path) -> None:
    """A cell 2 bytes before its page's end was read once in 200 times, and else called malformed.

    SQLite took the rest of the cell from the memory after the page, which is never the same.
    """
    with Database.open(report) as database:
        connection = database._store._connection  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA cell_size_check").fetchone() == (1,)


def test_the_first_page_of_a_table_may_be_anything(report: Path) -> None:
    """A root page that is missing, another table's, an index's, or of no kind."""
    with closing(sqlite3.connect(report)) as database:
        (root,) = database.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNEL,)
        ).fetchone()
    content = recorded()
    for kind in KINDS:
        changed = bytearray(content)
        changed[(root - 1) * 4096] = kind
        report.write_bytes(changed)
        if kind == content[(root - 1) * 4096]:
            continue
        with pytest.raises(GpuProfileError), Database.open(report) as database:
            database.load(KERNEL, "start")
