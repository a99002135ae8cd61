"""Typed records: what a column may hold, and what is refused."""

import sqlite3
from pathlib import Path

import pytest

from gpu_profile.analysis.store.cells import blob, integer, integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.errors import ReportError
from tests.unit.analysis.make import make_report


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report with a table whose columns have no declared type, so that SQLite takes any cell."""
    path = make_report(tmp_path / "run.sqlite", {})
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE Things (number, name, data)")
    rows = [(1, "one", b"1"), (2.0, 2, "two"), (None, None, None)]
    connection.executemany("INSERT INTO Things VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


def test_cells_have_the_types_of_their_columns(report: Path) -> None:
    columns = integer_or_none("number"), text("name"), blob("data"), integer_or_none("more?")
    with Database.open(report) as database:
        records = read_records(database, "Things", *columns)
        assert records == [(1, "one", b"1", None), (2, "2", None, None), (None, "", None, None)]
        assert [type(number) for number, *_ in records] == [int, int, type(None)]
        assert read_records(database, "Absent", integer("number")) == []


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("'seven'", "text or bytes"),
        ("x'00'", "text or bytes"),
        ("1.5", "a fraction"),
        ("NULL", "no value"),
    ],
)
def test_a_cell_that_is_no_number_is_refused_on_one_line(
    report: Path, cell: str, kind: str
) -> None:
    connection = sqlite3.connect(report)
    connection.execute(f"UPDATE Things SET number = {cell}")
    connection.commit()
    connection.close()
    with Database.open(report) as database, pytest.raises(ReportError) as refusal:
        read_records(database, "Things", text("name"), integer("number"))
    told = f"has {kind} in Things.number, which holds whole numbers"
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)
