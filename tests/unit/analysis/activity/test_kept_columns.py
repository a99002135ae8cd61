"""The columns that are kept of a report are all that its activities need."""

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.kept_columns import keep_columns
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Scope

PACKED = Path(__file__).parents[3] / "data" / "h200x4-ddp" / "rank0.sqlite.gz"


def test_activities_do_not_read_the_kernels_again(tmp_path: Path) -> None:
    """A second time takes 0.5 s of a million kernels; here it would find later kernels."""
    report = tmp_path / "rank0.sqlite"
    report.write_bytes(gzip.decompress(PACKED.read_bytes()))
    with Database.open(PACKED) as database:
        (expected,) = activities_of(database, Scope())
    with Database.open(report) as database:
        keep_columns(database, Scope())
        with closing(sqlite3.connect(report)) as connection:
            connection.execute(f"UPDATE {KERNEL} SET start = start + 1000, end = end + 1000")
            connection.commit()
        (activity,) = activities_of(database, Scope())
    assert activity.ops.start.tolist() == expected.ops.start.tolist()
