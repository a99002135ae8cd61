"""Each form of a secret in each place of a report: gone, or a known form that stays."""

import gzip
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.scrub import make_scrub_options, scrub_reports
from gpu_profile.analysis.scrub.second_search import search_copy
from gpu_profile.analysis.scrub.verify import verify_copy
from tests.unit.analysis.scrub.forms import FORMS, HOST, STAY, STAY_IN_NAMES

DATA = Path(__file__).parents[3] / "data" / "annotated" / "gemm" / "rank0.sqlite.gz"
_EVENT = "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, {}) VALUES (?, 2, 59, ?, ?)"
_THREAD = 281475014590464
_FIRST_STRING = 900_000
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real report in which each form stands in a name, a range, a fact, an argument and blobs."""
    path = tmp_path_factory.mktemp("planted") / f"rank0.{HOST}.sqlite"
    path.write_bytes(gzip.decompress(DATA.read_bytes()))
    with closing(sqlite3.connect(path)) as plant:
        plant.execute(
            "INSERT INTO META_DATA_CAPTURE (name, value) VALUES ('CAPTURE_HOSTNAME', ?)", (HOST,)
        )
        plant.execute("CREATE TABLE FUTURE_TABLE (number INTEGER, note TEXT, data BLOB)")
        for number, form in enumerate(FORMS):
            _plant(plant, number, form.text)
        plant.commit()
    return path


def _plant(plant: sqlite3.Connection, number: int, text: str) -> None:
    row = "INSERT INTO META_DATA_CAPTURE (name, value) VALUES (?, ?)"
    plant.execute(row, (f"PROCESS_1:ARGUMENT_{number}", text))
    plant.execute(row, (f"SOME_FACT_{number}", text))
    plant.execute("INSERT INTO StringIds VALUES (?, ?)", (_FIRST_STRING + number, text))
    plant.execute(_EVENT.format("textId"), (number, _THREAD, _FIRST_STRING + number))
    plant.execute(_EVENT.format("text"), (number, _THREAD, text))
    for encoding in ENCODINGS:
        blob = b"\0\1\2" + text.encode(encoding) + b"\0\0\7"
        plant.execute(_EVENT.format("binaryData"), (number, _THREAD, blob))
        plant.execute("INSERT INTO FUTURE_TABLE VALUES (?, ?, ?)", (number, text, blob))


def _values(copy: Path, query: str) -> list[tuple[int, str | bytes]]:
    with closing(sqlite3.connect(copy)) as connection:
        return connection.execute(query).fetchall()


PLANTED = f"start BETWEEN 0 AND {len(FORMS) - 1}"
NAMES = (
    f"SELECT id - {_FIRST_STRING}, value FROM StringIds WHERE id BETWEEN {_FIRST_STRING}"
    f" AND {_FIRST_STRING + len(FORMS) - 1}",
    f"SELECT start, text FROM NVTX_EVENTS WHERE {PLANTED} AND text NOTNULL",
    "SELECT number, note FROM FUTURE_TABLE",
)
FACTS = tuple(
    f"SELECT CAST(substr(name, {len(prefix) + 1}) AS INTEGER), value FROM META_DATA_CAPTURE"
    f" WHERE name LIKE '{prefix}%'"
    for prefix in ("PROCESS_1:ARGUMENT_", "SOME_FACT_")
)
BLOBS = (
    f"SELECT start, binaryData FROM NVTX_EVENTS WHERE {PLANTED} AND binaryData NOTNULL",
    "SELECT number, data FROM FUTURE_TABLE",
)


def _staying(copy: Path, query: str) -> Iterator[str]:
    """The parts of forms that are still in the values of a query."""
    for number, value in _values(copy, query):
        part = FORMS[number].part
        raw = value if isinstance(value, bytes) else value.encode()
        if any(part.encode(encoding) in raw for encoding in ENCODINGS):
            yield part


def test_each_form_is_gone_but_those_that_are_listed(report: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    table = scrub_reports([report], copy)
    assert table.column("Blobs emptied") == (2 * len(ENCODINGS) * len(FORMS),)
    for query in NAMES:
        assert set(_staying(copy, query)) == {*STAY, *STAY_IN_NAMES}
    for query in FACTS:
        assert set(_staying(copy, query)) == set(STAY)
    assert [blob for query in BLOBS for _, blob in _values(copy, query) if blob] == []
    assert HOST.encode() not in copy.read_bytes()

    again = tmp_path / "again.sqlite"
    scrub_reports([copy], again)
    assert again.read_bytes() == copy.read_bytes()


@pytest.mark.further
def test_blobs_that_are_kept_are_cleaned_in_each_encoding(report: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.sqlite"
    table = scrub_reports([report], copy, make_scrub_options(keep_blobs=True))
    assert table.column("Blobs emptied") == (0,)
    for query in BLOBS:
        assert set(_staying(copy, query)) == set(STAY)
        lengths = [[len(blob) for _, blob in _values(file, query)] for file in (report, copy)]
        assert lengths[0] == lengths[1]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "utf-16-be"])
def test_both_searches_read_blobs(tmp_path: Path, encoding: str) -> None:
    """What the redactor missed in a blob is found by each search alone."""
    for skipped in range(2):
        copy = tmp_path / f"copy{skipped}.sqlite"
        blob = b"\1" * skipped + "at 10.20.30.41 ".encode(encoding) + b"\0"
        with closing(sqlite3.connect(copy)) as plant:
            plant.execute("CREATE TABLE later (data BLOB)")
            plant.execute("INSERT INTO later VALUES (?)", (blob,))
            plant.commit()
        assert verify_copy(copy, Redactor()) == "a host in later.data"
        assert search_copy(copy, ()) == "an address in later.data"
