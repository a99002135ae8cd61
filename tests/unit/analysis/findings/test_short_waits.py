"""Waits that find the GPU idle: each takes little, and many of them hold up the host."""

from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

LAYERS = 160


def time_layer(rank: Rank) -> None:
    """A wait of 3 us, 16 us after the launch of a kernel of 8."""
    rank.work(16)
    rank.synchronize()


def test_waits_that_never_block_are_told_before_launches(tmp_path: Path) -> None:
    training = Training(ranks=1, layers=LAYERS, kernel_us=8, host_us=30, layer=time_layer)
    with Database.open(training.save(tmp_path)) as database:
        waits, launches = diagnose_reports(database).findings
    assert (waits.kind, launches.kind) == ("synchronization", "host_bound")
    assert waits.cost_ms == pytest.approx(LAYERS * 19e-3, rel=0.1)
    calls = f"rank 0: cudaStreamSynchronize, {LAYERS}.0 times a step, held the host 0.48 ms a step"
    assert calls in waits.evidence


def test_few_waits_that_never_block_are_no_finding(tmp_path: Path) -> None:
    training = Training(ranks=1, layers=LAYERS, kernel_us=8, host_us=30, after=time_layer)
    with Database.open(training.save(tmp_path)) as database:
        kinds = {finding.kind for finding in diagnose_reports(database).findings}
    assert kinds == {"host_bound"}
