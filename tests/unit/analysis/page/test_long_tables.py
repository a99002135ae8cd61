"""Tables of a page from reports with very many names."""

import json

import numpy as np
import pytest

from gpu_profile.analysis.page.events import RankPicture
from gpu_profile.analysis.page.host_rows import HostRows
from gpu_profile.analysis.page.html_text import redact_table
from gpu_profile.analysis.page.marks import Marks
from gpu_profile.analysis.page.timeline_data import (
    MOST_LETTERS,
    MOST_NAMES,
    OTHER_NAMES,
    _cut,
    timeline_data,
)
from gpu_profile.analysis.page.timeline_part import render_drawing
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.table import Column, Table
from tests.further import further

SECRET = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"


@pytest.mark.parametrize(("rows", "readable"), [further(20_000, 20_000), (20_001, 1_000)])
def test_only_the_first_rows_of_a_long_table_are_made_readable(rows: int, readable: int) -> None:
    """The search for secrets in a million names would take longer than all else of the page."""
    table = Table(
        "cuda_gpu_kern_sum",
        (Column("Total Time", "ns"), Column("Name")),
        tuple((rows - number, f"{number} {SECRET}") for number in range(rows)),
    )
    clean = redact_table(table, Redactor())
    assert len(clean.rows) == rows
    assert len(set(clean.rows)) == readable
    assert clean.rows[readable - 1][0] == rows - readable + 1
    assert not any(SECRET in str(name) for name in clean.column("Name"))


def make_marks(names: int) -> Marks:
    number = np.arange(names)
    return Marks(number, number + 1, number, number * 0, tuple(f"kernel {n}" for n in number))


def test_long_names_are_cut_where_they_would_make_the_page_too_large() -> None:
    names = [f"{number:06}{'x' * 2_000}" for number in range(1_000)]
    assert sum(map(len, _cut(names))) <= MOST_LETTERS + len(names)
    assert len(set(_cut(names))) == len(names)
    assert _cut(names[:10]) == names[:10]


@pytest.mark.parametrize(("names", "listed"), [(MOST_NAMES, MOST_NAMES), (30_000, MOST_NAMES + 1)])
def test_the_timeline_lists_so_many_names(names: int, listed: int) -> None:
    """A million names made a page of 55 MB."""
    none, marks = np.empty(0, np.int64), make_marks(names)
    picture = RankPicture(
        rank=0,
        device=0,
        start=0,
        end=names,
        width=1,
        first=0,
        busy=np.zeros((5, 1), np.uint8),
        exact_start=0,
        exact_end=names,
        events=marks,
        ranges=make_marks(0),
        ranges_left_out=0,
        host=HostRows(),
        steps_start=none,
        steps_end=none,
        total_events=names,
    )
    encoded = timeline_data([picture], {}, str)
    facts = json.loads(encoded[0])
    assert len(facts["names"]) == listed
    assert (facts["names"][-1] == OTHER_NAMES) == (names > MOST_NAMES)
    drawing = render_drawing([picture], encoded, {})
    assert ("names beyond the first 20,000" in drawing) == (names > MOST_NAMES)
