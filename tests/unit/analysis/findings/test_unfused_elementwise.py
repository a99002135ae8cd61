"""Chains of elementwise kernels as a finding."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.rules.gpu import unfused_elementwise
from gpu_profile.analysis.findings.rules.gpu.unfused_elementwise import collect_chains
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import diagnose_reports
from tests.unit.analysis.findings.test_gpu_use import save_with_grids
from tests.unit.analysis.replay.test_fused_chains import CHAIN
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def compute(rank: Rank) -> None:
    for name, us in CHAIN:
        rank.kernel(us, name)


def diagnose(training: Training, folder: Path) -> tuple[Finding, ...]:
    path = save_with_grids(training, folder, blocks=132)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET blockX = 128, gridX = 8192")
    with Database.open(path) as report:
        return diagnose_reports(report).findings


def test_a_chain_in_each_layer_is_told_with_what_one_kernel_gains(tmp_path: Path) -> None:
    """Of 900 us in each of 4 layers 250 are left, or 200 to 600."""
    (finding,) = diagnose(Training(ranks=1, layers=4, layer=compute), tmp_path)
    assert (finding.kind, finding.ranks, finding.cause) == ("unfused_elementwise", (0,), "chains")
    assert finding.range_ms is not None
    gains = [finding.replayed_ms, *finding.range_ms]
    assert gains == pytest.approx([2.6, 1.2, 2.8], abs=0.02)
    assert "3.60 of" in finding.evidence[0]
    assert "in 16 elementwise kernels that follow each other in 4 chains" in finding.evidence[0]


def test_chains_of_parts_are_those_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each step is a part, as where all are one."""
    path = save_with_grids(Training(ranks=1, layers=2, layer=compute), tmp_path, blocks=132)
    with Database.open(path) as report:
        (activity,) = activities_of(report, Scope())
        whole = collect_chains(activity, report)
        monkeypatch.setattr(unfused_elementwise, "PART", 1)
        parts = collect_chains(activity, report)
    assert whole.count.sum()
    assert repr(parts) == repr(whole)


def test_chains_that_are_less_than_3_percent_are_not_told(tmp_path: Path) -> None:
    training = Training(ranks=1, layers=300, after=compute)
    assert diagnose(training, tmp_path) == ()
