"""Tables of a page from reports with very many names."""

import pytest

from gpu_profile.analysis.page.html_text import redact_table
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.table import Column, Table

SECRET = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"


@pytest.mark.parametrize(("rows", "readable"), [(20_000, 20_000), (20_001, 1_000)])
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
