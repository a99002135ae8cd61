"""A rank that others wait for in collectives on the CPU, which no GPU shows."""

from pathlib import Path

import pytest

from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.synthetic import Rank, Recording, ranks_of

STEPS, MS = 14, 1_000_000


def exchange(ranks: list[Rank]) -> None:
    """gloo: each rank copies its gradients to the host, and gets the sum when all have."""
    for rank in ranks:
        rank.item()
    together = max(rank.now for rank in ranks)
    for number, rank in enumerate(ranks):
        rank.now = together + 300_000 + 20_000 * number
        rank.copy(4, pageable=True)


def record(late: int, pause_us: float = 0.0, kernels: int = 0, count: int = 2) -> Recording:
    """Steps of 4 ms of kernels; rank `late` pauses first, or runs `kernels` of 1 ms more."""
    ranks = ranks_of(count)
    for _ in range(STEPS):
        begin = [rank.now for rank in ranks]
        for rank in ranks:
            if rank.rank == late:
                rank.work(pause_us)
            for _ in range(4):
                rank.kernel(1000)
            for _ in range(kernels if rank.rank == late else 0):
                rank.kernel(1000)
        exchange(ranks)
        for rank, start in zip(ranks, begin, strict=True):
            rank.range("step", start)
    return ranks[0].recording


@pytest.mark.parametrize("count", [2, 4])
def test_the_late_rank_is_named_and_nobody_else(count: int, tmp_path: Path) -> None:
    findings = judged(record(1, pause_us=30_000, count=count), tmp_path)
    first = findings[0]
    assert (first.kind, first.ranks, first.cause) == ("cpu_straggler", (1,), "host")
    assert first.cost_ms == pytest.approx(30, rel=0.1)
    assert "idle" not in {finding.kind for finding in findings}
    assert any("rank 1 arrived last in" in line for line in first.evidence)


def test_a_rank_that_computes_longer_is_late_by_its_gpu(tmp_path: Path) -> None:
    first = judged(record(0, kernels=12), tmp_path)[0]
    assert (first.kind, first.ranks, first.cause) == ("cpu_straggler", (0,), "compute")


def test_even_ranks_have_no_straggler(tmp_path: Path) -> None:
    assert "cpu_straggler" not in {f.kind for f in judged(record(9), tmp_path)}


def test_ranks_that_do_not_go_on_together_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Two programs side by side: each pauses for itself, and never at one time."""
    ranks = ranks_of(2)
    for _ in range(STEPS):
        for number, rank in enumerate(ranks):
            start = rank.now
            rank.kernel(1000)
            rank.item()
            rank.work(20_000 + 7_300 * number)
            rank.copy(4, pageable=True)
            rank.range("step", start)
    kinds = {finding.kind for finding in judged(ranks[0].recording, tmp_path)}
    assert "idle" in kinds
    assert "cpu_straggler" not in kinds
