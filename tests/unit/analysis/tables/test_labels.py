"""The texts of ids, whatever sequence a table's rows are."""

from pathlib import Path

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.labels import api_labels
from tests.unit.analysis.make import make_report


def test_ids_are_any_sequence_of_tuples(tmp_path: Path) -> None:
    report = make_report(tmp_path / "rank0.sqlite", {}, strings=("cudaLaunchKernel_v7000",))
    ids: list[tuple[int]] = [(1,)]  # mypy refuses it for a parameter of list[tuple[int, ...]]
    with Database.open(report) as database:
        assert api_labels(database, ids) == [("cudaLaunchKernel",)]
