"""Tables shown: nsys' rounding, JSON, text that fits; groups, top, filter."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import ANALYSES
from gpu_profile.analysis.tables.views import filter_rows, select_top
from gpu_profile.formats.table_formats import fit_columns, to_csv, to_json, to_text
from gpu_profile.table import Column, Table
from tests.further import keep_first

REPORT = Path(__file__).parents[1] / "data" / "h200x4-ddp" / "all-ranks-one-report.sqlite.gz"
SCOPE = {954: 0, 955: 1, 956: 2, 957: 3}
LONG = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>"
SMALL = Table("t", (Column("Time", "ns"), Column("Name")), ((12345, LONG), (None, "short")))


@pytest.fixture(scope="module")
def report() -> Iterator[Database]:
    """All ranks' report, open for all tests: what several tables need is computed once."""
    with Database.open(REPORT) as database:
        yield database


@pytest.fixture(scope="module")
def by_rank(report: Database) -> Table:
    return ANALYSES["cuda_gpu_kern_sum"].table(report, scope=Scope(SCOPE, by="rank"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (127378.25, "127378.3"),
        (128715.65, "128715.6"),
        (0.25, "0.3"),
        (-0.25, "-0.3"),
        (2.0, "2.0"),
    ],
)
def test_ties_round_away_from_zero_as_nsys_does(value: float, shown: str) -> None:
    assert to_csv(Table("t", (Column("x"),), ((value,),))) == f"x\n{shown}\n"


def test_csv_quotes_what_needs_it_and_leaves_the_absent_empty() -> None:
    assert to_csv(SMALL).splitlines()[1:] == [f'12345,"{LONG}"', ",short"]


def test_json_has_numbers_and_nulls() -> None:
    assert json.loads(to_json([SMALL])) == {
        "t": [{"Time (ns)": 12345, "Name": LONG}, {"Time (ns)": None, "Name": "short"}]
    }


@pytest.mark.parametrize(
    ("width", "name"),
    [
        (20, "vectorized_elementwise_kernel<…Fill…>"),
        (80, "vectorized_elementwise_kernel<…Fill…>"),
        (200, LONG),
    ],
)
def test_text_fits_and_a_name_has_40_characters_at_least(width: int, name: str) -> None:
    lines = to_text(SMALL, width).splitlines()
    assert max(map(len, lines)) <= max(width, len("Time (ns)  ") + 40)
    assert lines[4] == f"   12,345  {name}"


def test_a_narrow_terminal_keeps_the_first_two_quantities_and_the_name() -> None:
    heads = (Column("Share", "%"), Column("Count"), *(Column(name, "ns") for name in "ABC"))
    table = Table("t", (*heads, Column("Name")), ((50.0, 7, 12345, 12, 345, LONG),))
    wide = len(to_text(table, 60).splitlines()[3])
    assert fit_columns(table, wide) == (table, ())
    fitting, left_out = fit_columns(table, wide - 1)
    assert left_out == ("C (ns)",)
    assert len(to_text(fitting, wide - 1).splitlines()[3]) < wide
    fitting, left_out = fit_columns(table, 20)
    assert left_out == ("B (ns)", "C (ns)")
    assert [column.name for column in fitting.columns] == ["Share", "Count", "A", "Name"]
    assert fitting.rows == ((50.0, 7, 12345, LONG),)


def test_an_empty_table_says_so() -> None:
    assert to_text(SMALL.where([])) == "t: no such events in the report\n"
    without_ranges = to_text(ANALYSES["nvtx_sum"].merge([]))
    assert without_ranges == "nvtx_sum: no NVTX ranges in the report; marks are not counted\n"


def test_groups_come_first_and_add_up(by_rank: Table) -> None:
    assert str(by_rank.columns[0]) == "Rank"
    assert by_rank.column("Rank") == tuple(sorted(map(int, map(str, by_rank.column("Rank")))))
    rank_0 = [float(str(row[1])) for row in by_rank.rows if row[0] == 0]
    assert sum(rank_0) == pytest.approx(100)


@pytest.mark.parametrize("name", keep_first(6, ANALYSES))
def test_every_grouping_of_every_table_has_its_columns(report: Database, name: str) -> None:
    for by in ANALYSES[name].by:
        table = ANALYSES[name].table(report, scope=Scope(SCOPE, by=by))
        width = {"rank": 1, "device": 2, "stream": 3}[by]
        heads = [str(column) for column in table.columns[:width]]
        assert heads == ["Rank", "Device", "Stream"][:width]
        assert all(len(row) == len(table.columns) for row in table.rows)


def test_top_is_of_each_group_and_filter_of_texts(by_rank: Table) -> None:
    assert select_top(by_rank, 2, "rank").column("Rank") == (0, 0, 1, 1, 2, 2, 3, 3)
    assert len(select_top(by_rank, 2).rows) == 2
    assert select_top(by_rank, 0).rows == by_rank.rows
    nccl = filter_rows(by_rank, "^NCCLDEV")
    assert nccl.column("Rank") == (0, 1, 2, 3)
