"""Reading: pages against SQL, probing, filters, forms of export."""

import gzip
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.arrays.columns import narrow_column
from gpu_profile.analysis.store import database as database_module
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.store.schema import KERNEL, NVTX, RUNTIME, pid_of, process_of, tid_of
from gpu_profile.analysis.store.sqlite.page_cells import Unsupported
from gpu_profile.analysis.store.sqlite.pages import PageReader
from gpu_profile.analysis.store.sqlite.store import SqliteStore
from tests.unit.analysis.make import kernel, make_report, process, thread

REPORT = Path(__file__).parents[3] / "data" / "h200x4-ddp" / "all-ranks-one-report.sqlite.gz"


def rootpage(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    (page,) = connection.execute(query, (table,)).fetchone()
    connection.close()
    return int(page)


def reader(path: Path) -> PageReader:
    connection = sqlite3.connect(path)
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.close()
    return PageReader(path, pages)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "all.sqlite"
    with gzip.open(REPORT) as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


@pytest.mark.recorded
def test_pages_and_sql_agree_on_every_integer_column(plain: Path) -> None:
    store = SqliteStore(plain)
    compared = 0
    for table, columns in store.tables.items():
        for column in columns:
            try:
                ours = store._pages.integers(*store._find_indexes(table, [column], {}))
            except Unsupported:
                continue
            assert np.array_equal(ours[0], store._from_sql(table, [column], {})[0])
            compared += 1
    store.close()
    assert compared > 150


@pytest.mark.parametrize(
    "values",
    [
        [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**15 - 1, 2**15, -(2**15) - 1],
        [2**23, -(2**23) - 1, 2**31, -(2**31) - 1, 2**47, -(2**47) - 1, 2**63 - 1, -(2**63)],
        [None, 5, None],
        list(range(5000)),
        [*range(9000), 2**40],
    ],
)
@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_pages_hold_every_width_of_integer(
    tmp_path: Path, values: list[int | None], page_size: int
) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("CREATE TABLE t (before TEXT, x INTEGER)")
    rows = [("x" * (index % 50), value) for index, value in enumerate(values)]
    connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    connection.commit()
    connection.close()
    (column,) = reader(path).integers(rootpage(path, "t"), [(1,)], {})
    assert column.tolist() == [MISSING if value is None else value for value in values]
    (narrow,) = reader(path).integers(
        rootpage(path, "t"), [(1,)], {}, lambda arrays: [*map(narrow_column, arrays)]
    )
    assert narrow.tolist() == column.tolist()
    assert narrow.itemsize == (4 if max(map(abs, column.tolist())) < 2**29 else 8)


def test_cells_of_one_page_may_have_rowids_and_sizes_of_any_length(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x INTEGER, a BLOB, b BLOB, c BLOB, y INTEGER)")
    ids = [-(2**62), -1, 0, 127, 128, 2**14 - 1, 2**14, 2**21, 2**35, 2**49, 2**56, 2**63 - 1]
    blobs = [(b"x" * size, b"x" * 30, b"x" * 40) for size in (20, 30, 40, 50) for _ in range(3)]
    rows = [(key, key % 7, *blob, key % 300) for key, blob in zip(ids, blobs, strict=True)]
    connection.executemany(
        "INSERT INTO t (rowid, x, a, b, c, y) VALUES (?, ?, ?, ?, ?, ?)", reversed(rows)
    )
    connection.commit()
    connection.close()
    x, y = reader(path).integers(rootpage(path, "t"), [(0,), (4,)], {})
    assert list(zip(x.tolist(), y.tolist(), strict=True)) == [(row[1], row[-1]) for row in rows]


@pytest.mark.parametrize("row", [("x" * 60, 1), ("x" * 9000, 1), ("", 1.5), ("", "text")])
def test_what_pages_cannot_tell_is_left_to_sqlite(tmp_path: Path, row: tuple[object, ...]) -> None:
    path = tmp_path / "x.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (before, x)")
    connection.execute("INSERT INTO t VALUES (?, ?)", row)
    connection.commit()
    connection.close()
    with pytest.raises(Unsupported):
        reader(path).integers(rootpage(path, "t"), [(1,)], {})


def test_long_texts_before_a_column_do_not_hide_it(tmp_path: Path) -> None:
    rows = [(5, 9, 59, thread(7), None, 0, "long " * 2000, None, None)]
    with Database.open(make_report(tmp_path / "r.sqlite", {NVTX: rows})) as database:
        assert database.load(NVTX, "start", "eventType")["eventType"].tolist() == [59]
        codes, texts = database.texts(NVTX, "text")
    assert (codes.tolist(), texts) == ([0], ["long " * 2000])


def test_rows_come_sorted_and_filtered(tmp_path: Path) -> None:
    rows = [kernel(30, 40, 2), kernel(10, 20, 1), kernel(10, 15, 1), kernel(50, 60, 3)]
    with Database.open(make_report(tmp_path / "r.sqlite", {KERNEL: rows}, "abc")) as database:
        columns = database.load(KERNEL, "start", "end", "end-start", only={"demangledName": (1, 2)})
        raw = database.load(KERNEL, "start", sort=False)
        names = database.names(database.load(KERNEL, "demangledName")["demangledName"])
    assert columns["start"].tolist() == [10, 10, 30]
    assert columns["end-start"].tolist() == [5, 10, 10]
    assert raw["start"].tolist() == [30, 10, 10, 50]
    assert names == {1: "a", 2: "b", 3: "c"}


def test_kept_columns_read_alike_whole_in_parts_and_after_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "PART_ROWS", 3)
    rows = [kernel(10 * row, 10 * row + row % 3, 1 + row % 2) for row in range(8)]
    columns = ("end-start", "demangledName", "correlationId")
    with Database.open(make_report(tmp_path / "r.sqlite", {KERNEL: rows}, "ab")) as database:
        read = database.load(KERNEL, *columns, sort=False)
        database.keep(KERNEL, "start", "end", "demangledName", "correlationId", "absent")
        parts = list(database.parts(KERNEL, *columns))
        database.forget(KERNEL, "start", "correlationId")
        again = database.load(KERNEL, *columns, sort=False)
        assert database.count(KERNEL) == 8
    assert [len(part["end-start"]) for part in parts] == [3, 3, 2]
    for name in columns:
        assert np.concatenate([part[name] for part in parts]).tolist() == read[name].tolist()
        assert again[name].tolist() == read[name].tolist()


def test_absent_tables_and_optional_columns(tmp_path: Path) -> None:
    with Database.open(make_report(tmp_path / "r.sqlite", {KERNEL: [kernel(1, 2)]})) as database:
        assert database.load(RUNTIME, "start", "end")["end"].tolist() == []
        assert database.rows("TARGET_INFO_GPU", "id") == []
        assert database.load(KERNEL, "clusterX?", "start")["clusterX"].tolist() == [MISSING]
        assert database.rows(KERNEL, "start", "clusterX?") == [(1, None)]
        assert database.event_counts() == {KERNEL: 1}


def test_packed_ids() -> None:
    ids = np.array([thread(954, 1021)])
    assert (pid_of(ids)[0], tid_of(ids)[0], process_of(ids)[0]) == (954, 1021, process(954))


def test_nothing_is_written_beside_the_report(plain: Path) -> None:
    before = sorted(plain.parent.iterdir()), plain.read_bytes()
    with Database.open(plain) as database:
        database.load(KERNEL, "start")
    assert (sorted(plain.parent.iterdir()), plain.read_bytes()) == before
