"""Kernels that take longer beside communication than alone."""

from pathlib import Path

import pytest

from tests.unit.analysis.findings.test_causes import judged
from tests.unit.analysis.synthetic import Recording, all_reduce, join_communication, ranks_of

STEPS, KERNELS = 12, 20


def record(beside_us: float, late_us: float = 0.0, transfer_us: float = 2_000) -> Recording:
    """Steps of two ranks: 20 kernels of 200 us, an all-reduce, beside it kernels of
    `beside_us`, and 5 of 200 us after it. Rank 1 computes `late_us` more before the all-reduce.
    """
    ranks = ranks_of(2)
    for _ in range(STEPS):
        begin = [rank.now for rank in ranks]
        for rank in ranks:
            for _ in range(KERNELS):
                rank.kernel(200)
        ranks[1].kernel(late_us or 1, "more")
        all_reduce(ranks, transfer_us, overlap=True)
        for rank, start in zip(ranks, begin, strict=True):
            while rank.free < rank.talked - 10_000:
                rank.kernel(beside_us)
            join_communication(rank)
            for _ in range(5):
                rank.kernel(200)
            rank.range("step", start)
    for rank in ranks:
        rank.synchronize()
    return ranks[0].recording


def test_a_kernel_that_takes_twice_as_long_beside_communication_is_named(tmp_path: Path) -> None:
    """Of 2 ms of kernels beside the all-reduce 1 ms is contention; the stream waits for its end."""
    findings = judged(record(beside_us=400), tmp_path)
    (finding,) = [finding for finding in findings if finding.kind == "contention"]
    assert (finding.ranks, finding.cause) == ((0, 1), "compute")
    assert finding.at_most_ms == pytest.approx(1.0, rel=0.05)
    assert any("gemm, 5.0 times a step beside" in line for line in finding.evidence)
    assert any("400.0 us, alone 200.0 us" in line for line in finding.evidence)


def test_kernels_that_communication_does_not_slow_are_no_finding(tmp_path: Path) -> None:
    assert "contention" not in {f.kind for f in judged(record(beside_us=200), tmp_path)}


def test_contention_beside_a_collective_that_waits_is_the_late_ranks(tmp_path: Path) -> None:
    kinds = [
        finding.kind for finding in judged(record(400, late_us=20_000, transfer_us=200), tmp_path)
    ]
    assert kinds[0] == "straggler"
    assert "contention" not in kinds
