"""Ranks that are late in some steps alone."""

from collections import Counter
from pathlib import Path

import pytest

from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def test_a_rank_that_evaluates_in_each_fifth_step_is_a_straggler(tmp_path: Path) -> None:
    """Rank 0 runs 60 kernels of the training more, after it: 12 ms in each fifth step."""
    steps = Counter[int]()

    def evaluate(rank: Rank) -> None:
        steps[rank.rank] += 1
        if rank.rank == 0 and steps[0] % 5 == 0:
            for _ in range(60):
                rank.work(4)
                rank.kernel(200)

    training = Training(ranks=2, steps=40, after=evaluate)
    with Database.open(training.save(tmp_path)) as database:
        (finding,) = diagnose_reports(database).findings
    assert (finding.kind, finding.ranks, finding.cause) == ("straggler", (0,), "alone")
    assert "how late it comes: every 5th step has 12" in finding.evidence[1]
    assert finding.at_most_ms == pytest.approx(12 / 5, rel=0.2)


def test_a_rank_that_always_computes_most_is_late_by_no_turn(tmp_path: Path) -> None:
    """The hosts are late by turns, and rank 1 computes for longer all the time."""
    steps = Counter[int]()

    def pause(rank: Rank) -> None:
        steps[rank.rank] += 1
        rank.work(9000 if steps[rank.rank] % 2 == rank.rank else 3000)
        rank.synchronize()

    training = Training(ranks=2, steps=24, data=pause, only={1: lambda rank: rank.kernel(1000)})
    with Database.open(training.save(tmp_path)) as database:
        findings = diagnose_reports(database).findings
    assert not [finding for finding in findings if finding.cause == "spread"]
