"""A Parquet folder, as `nsys export --type=parquetdir` writes it, against the same in SQLite."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, NVTX
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.errors import ReportError
from tests.further import keep_first
from tests.reading import diagnose_reports


@pytest.fixture(scope="module")
def plain(short_run: Path) -> Path:
    return short_run / "rank1.sqlite"


@pytest.fixture(scope="module")
def folder(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file a table, with the types that nsys gives: numbers, text, nothing."""
    target = tmp_path_factory.mktemp("parquet") / "rank1.parquetdir"
    target.mkdir()
    database = sqlite3.connect(plain)
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (name,) in names:
        cursor = database.execute(f'SELECT * FROM "{name}"')
        columns = [column[0] for column in cursor.description]
        cells = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(columns)
        table = pyarrow.table(dict(zip(columns, map(list, cells), strict=True)))
        pyarrow.parquet.write_table(table, target / f"{name}.parquet", row_group_size=1000)
    database.close()
    return target


@pytest.fixture(scope="module")
def both(plain: Path, folder: Path) -> Iterator[tuple[Database, Database]]:
    """Both reports, open for all tables: what several of them need is computed once."""
    with Database.open(plain) as in_sqlite, Database.open(folder) as in_parquet:
        yield in_sqlite, in_parquet


@pytest.mark.parametrize("name", keep_first(12, [*ANALYSES, *OURS]))
def test_every_table_is_the_same(
    both: tuple[Database, Database], plain: Path, folder: Path, name: str
) -> None:
    expected, parquet = map({**ANALYSES, **OURS}[name].table, both)
    assert parquet.columns == expected.columns
    # capture_health names the report.
    assert str(parquet.rows).replace(folder.name, plain.name) == str(expected.rows)


@pytest.mark.further
def test_the_findings_are_the_same(both: tuple[Database, Database]) -> None:
    expected, parquet = (diagnose_reports(database).to_json() for database in both)
    assert parquet == expected


def test_counts_filters_and_absent_columns(folder: Path) -> None:
    with Database.open(folder) as database:
        assert database.schema == (3, 20, 3)
        assert database.count(KERNEL) == len(database.load(KERNEL, "start")["start"])
        pushed = database.load(NVTX, "start", "nothing?", only={"eventType": (59,)})
        assert 0 < len(pushed["start"]) < database.count(NVTX)
        assert not len(database.load(NVTX, "start", only={"eventType": ()})["start"])
        with pytest.raises(ReportError, match="has no column nothing"):
            database.load(NVTX, "nothing")


def test_a_truncated_file_of_the_folder_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquetdir"
    shutil.copytree(folder, broken)
    file = broken / f"{KERNEL}.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ReportError, match=r"broken\.parquetdir.* is damaged"):
        Database.open(broken)


def test_damage_inside_of_a_file_is_named(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquetdir"
    shutil.copytree(folder, broken)
    file = broken / f"{KERNEL}.parquet"
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    file.write_bytes(content)
    with Database.open(broken) as database, pytest.raises(ReportError) as caught:
        ANALYSES["cuda_gpu_kern_sum"].table(database)
    assert "broken.parquetdir is damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_foreign_folder_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "photos.parquet")
    with pytest.raises(ReportError, match="was not written by nsys"):
        Database.open(tmp_path)
