"""Two of our tables against SQL that says what they mean: a second implementation in a few lines.

It joins every range with every call (duckdb's interval join), where ours relies on the order of a
thread's calls: 10 times slower on a large report, and right wherever ours is.
"""

import gzip
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import ANALYSES
from gpu_profile.table import Cell
from tests.further import further

if TYPE_CHECKING:
    import duckdb

DATA = Path(__file__).parents[3] / "data"
REPORTS = ("h200x4-ddp/all-ranks-one-report", "h200-tables/graphs-by-node", "h200-tables/window")
SOURCES = {
    "strings": "SELECT id, value FROM StringIds",
    "kernels": 'SELECT start, "end", correlationId, globalPid, demangledName'
    " FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "calls": 'SELECT start, "end", correlationId, globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME',
    "events": 'SELECT rowid AS row, start, "end", eventType, globalTid, domainId, text, textId'
    " FROM NVTX_EVENTS WHERE endGlobalTid IS NULL",
}
STATISTICS = """
    count(*)::BIGINT, sum(duration)::BIGINT, avg(duration), median(duration),
    min(duration)::BIGINT, max(duration)::BIGINT, coalesce(stddev_samp(duration), 0)
"""
KERNELS_BY_NAME = f"""
    SELECT value, {STATISTICS}
    FROM (SELECT "end" - start AS duration, demangledName FROM kernels)
    JOIN strings ON id = demangledName
    GROUP BY value
"""
KERNELS_BY_RANGE = f"""
    WITH named AS (
        SELECT events.*, coalesce(text, value) AS label
        FROM events LEFT JOIN strings ON textId = id
    ), domains AS (
        SELECT globalTid >> 24 AS process, domainId, label FROM named WHERE eventType = 75
    ), ranges AS (
        SELECT row, start, "end", eventType, globalTid,
            concat(domains.label, ':', named.label) AS name
        FROM named LEFT JOIN domains
            ON domains.process = globalTid >> 24
            AND domains.domainId = coalesce(named.domainId, 0)
        WHERE eventType IN (59, 60)
    ), launched AS (
        SELECT value, kernels."end" - kernels.start AS duration, calls.globalTid,
            calls.start AS begun, calls."end" AS done
        FROM kernels
        JOIN strings ON id = demangledName
        LEFT JOIN calls ON calls.correlationId = kernels.correlationId
            AND calls.globalTid >> 24 = kernels.globalPid >> 24
    )
    SELECT coalesce(name, ''), launched.globalTid >> 24 & 16777215, launched.globalTid & 16777215,
        value, count(DISTINCT row)::BIGINT, {STATISTICS}
    FROM launched LEFT JOIN ranges
        ON ranges.globalTid = launched.globalTid AND start <= begun AND done <= "end"
    GROUP BY ALL
"""


@pytest.fixture(scope="module", params=[further(REPORTS[0]), *REPORTS[1:]])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("oracle") / "run.sqlite"
    path.write_bytes(gzip.decompress((DATA / f"{request.param}.sqlite.gz").read_bytes()))
    return path


@pytest.fixture(scope="module")
def oracle(report: Path) -> "duckdb.DuckDBPyConnection":
    """The report's tables in duckdb, read by sqlite3."""
    import duckdb  # both take 0.8 s in each process that collects the tests
    import pandas as pd

    connection, tables = sqlite3.connect(report), duckdb.connect()
    for name, query in SOURCES.items():
        # Int64 of pandas holds NULL; by default a column with NULL becomes one of floats.
        rows = pd.read_sql_query(query, connection, dtype_backend="numpy_nullable")
        tables.register(f"{name}_rows", rows)
        tables.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
    connection.close()
    return tables


def read_table(report: Path, name: str, *columns: str) -> list[tuple[Cell, ...]]:
    with Database.open(report) as database:
        table = ANALYSES[name].table(database)
    places = [[column.name for column in table.columns].index(column) for column in columns]
    return [tuple(row[place] for place in places) for row in table.rows]


NUMBERS = ("Avg", "Med", "Min", "Max", "StdDev")


def assert_same(rows: list[tuple[Cell, ...]], others: list[tuple[Cell, ...]], keys: int) -> None:
    """The same rows in any order; numbers but for rounding."""
    ours, theirs = ({row[:keys]: row[keys:] for row in side} for side in (rows, others))
    assert len(ours) == len(rows) > 10
    assert ours.keys() == theirs.keys()
    for key, numbers in ours.items():
        assert numbers == pytest.approx(theirs[key], rel=1e-9), key


def test_kernels_by_name(report: Path, oracle: "duckdb.DuckDBPyConnection") -> None:
    ours = read_table(report, "cuda_gpu_kern_sum", "Name", "Instances", "Total Time", *NUMBERS)
    assert_same(ours, oracle.execute(KERNELS_BY_NAME).fetchall(), keys=1)


def test_kernels_by_range(report: Path, oracle: "duckdb.DuckDBPyConnection") -> None:
    names = ("NVTX Range", "PID", "TID", "Kernel Name", "NVTX Inst", "Kern Inst", "Total Time")
    ours = read_table(report, "nvtx_kern_sum", *names, *NUMBERS)
    assert_same(ours, oracle.execute(KERNELS_BY_RANGE).fetchall(), keys=4)
