"""A recorded training whose data loader is too slow, as `--preset=full` records it."""

import gzip
import sqlite3
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.by_name import OURS
from tests.reading import diagnose_reports

REPORT = Path(__file__).parents[3] / "data" / "h200-loader" / "rank0.sqlite.gz"


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    with Database.open(REPORT) as database:
        return diagnose_reports(database)


@pytest.mark.recorded
def test_the_loader_is_named_first_with_its_period_and_line(diagnosis: Diagnosis) -> None:
    """Two workers of 64 ms a batch for steps of 16 ms: every second step waits."""
    first = diagnosis.findings[0]
    assert (first.kind, first.ranks, first.cause) == ("idle", (0,), "data")
    assert first.at_most_ms == pytest.approx(16, rel=0.15)
    said = "; ".join(first.evidence)
    assert "every 2nd step has 36.27 ms of it" in said
    assert " ms a step in <module> (slow_loader.py:8), in wait (threading.py" in said
    assert "of the samples are in the data loader" in said
    assert "the thread waited for a queue, a pipe or another process" in said


@pytest.mark.recorded
def test_waits_alone_tell_it_too(tmp_path: Path) -> None:
    """Without Python's samples (an export without payloads) the waits and the loader's threads."""
    path = tmp_path / "rank0.sqlite"
    path.write_bytes(gzip.decompress(REPORT.read_bytes()))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE NVTX_EVENTS SET binaryData = NULL")
    connection.close()
    with Database.open(path) as database:
        first = diagnose_reports(database).findings[0]
    assert (first.kind, first.cause) == ("idle", "data")
    assert not any("samples" in line for line in first.evidence)


@pytest.mark.recorded
def test_memory_and_metrics_of_a_real_report() -> None:
    with Database.open(REPORT) as database:
        memory = OURS["gpu_memory_sum"].table(database)
        metrics = OURS["gpu_metric_sum"].table(database)
        functions = OURS["host_function_sum"].table(database)
    assert memory.rows[0][2:4] == ("Device", 476.317696)
    assert {"SMs Active", "Tensor Active"} <= set(metrics.column("Metric"))
    assert functions.column("Function")[0] == "wait (threading.py)"
