"""Gaps that are long for the step: one pause of the host, or many calls that launch nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.synthetic import Rank, ranks_of

KERNELS_US, GAP_US = 200, 600


def pause(rank: Rank) -> None:
    rank.work(GAP_US)


def set_parameters(rank: Rank) -> None:
    """XLA sets those of each node before it launches its graph."""
    for _ in range(GAP_US // 5):
        rank.work(4)
        rank.call("cuGraphExecKernelNodeSetParams_v2", 1)


@pytest.mark.parametrize(
    ("act", "expected"), [(pause, ("idle", "host")), (set_parameters, ("host_bound", "calls"))]
)
def test_many_calls_in_a_gap_are_launches(
    act: Callable[[Rank], None], expected: tuple[str, str], tmp_path: Path
) -> None:
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(24):
        start = rank.now
        act(rank)
        rank.graph(KERNELS_US)
        rank.range("step", start)
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        diagnosis = diagnose_reports(database, control_ms=0.6)
    finding = diagnosis.findings[0]
    assert (finding.kind, finding.cause) == expected
    assert finding.cost_ms == pytest.approx((GAP_US - KERNELS_US) / 1000, rel=0.1)
