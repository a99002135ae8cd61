"""Findings that share a loss with an earlier one say so."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.same_losses import add_mostly_same_loss
from gpu_profile.analysis.store.database import Database
from gpu_profile.formats.table_formats import to_csv
from tests.reading import diagnose_reports

CAUSES = Path(__file__).parents[3] / "data" / "causes"
COPIES = Finding("pageable_copy", (0,), "pageable", (), "", replayed_ms=4.0)
PAUSES = Finding("idle", (0,), "host", (), "", replayed_ms=4.0)


def test_a_range_is_told_where_its_ends_differ_as_they_are_shown() -> None:
    told = [replace(COPIES, range_ms=ends).describe_cost() for ends in ((3.998, 4.002), (3.9, 5.0))]
    assert told == ["4.00 ms a step", "4.00 ms a step (3.90 to 5.00)"]


def test_a_table_tells_small_costs_and_those_that_are_a_limit_apart() -> None:
    limit = Finding("mixed_steps", (0,), "prompts", (), "", at_most_ms=1.98)
    table = Diagnosis((replace(COPIES, replayed_ms=0.037), limit), ()).to_table()
    assert (table.column("Per Step"), table.column("At Most")) == ((0.037, None), (None, 1.98))
    assert to_csv(table).splitlines()[1] == "pageable_copy,0,pageable,0.037,,,"


@pytest.mark.parametrize(
    ("alone_ms", "both_ms", "left"),
    [
        (4.0, 5.9, "1.90 ms a step more"),
        (4.0, 6.0, ""),
        (4.0, 8.0, ""),
        (4.0, 3.9, "nothing more"),
        # Steps that were not replayed hold half as much of it.
        (8.0, 7.0, "1.50 ms a step more"),
        (0.0, 4.0, ""),
    ],
)
def test_most_is_more_than_half_of_the_gain(alone_ms: float, both_ms: float, left: str) -> None:
    told = add_mostly_same_loss(PAUSES, COPIES, 4.0, alone_ms, both_ms)
    line = "most of it is the same loss as pageable_copy on rank 0: when that is gone, this gains "
    assert told.evidence == ((line + left,) if left else ())


@pytest.mark.recorded
def test_pauses_that_copies_share_are_not_added_up() -> None:
    """59 ms a step: 27 without the copies, 32 without the pauses, and without both 32."""
    with Database.open(CAUSES / "nbody_energy" / "planted.sqlite.gz") as database:
        copies, pauses = diagnose_reports(database).findings
    assert (copies.kind, pauses.kind) == ("pageable_copy", "idle")
    assert pauses.evidence[-1].startswith("most of it is the same loss as pageable_copy on rank 0")
    assert not any("same loss" in line for line in copies.evidence)
