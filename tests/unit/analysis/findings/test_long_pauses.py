"""Pauses that take most of a step: a thread takes as long for their work, and the step waits."""

from pathlib import Path

import pytest

from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.replayed_costs import THREAD
from tests.unit.analysis.findings.test_causes import only_of
from tests.unit.analysis.scenarios import Training

STEP_MS = 8.3
"""Without the pause."""


def diagnose(pause_ms: int, folder: Path) -> Finding:
    training = Training(ranks=1, steps=20, after=lambda rank: rank.work(1_000 * pause_ms))
    return only_of(training.record(), folder)


def test_one_thread_gains_the_rest_of_the_step(tmp_path: Path) -> None:
    finding = diagnose(30, tmp_path)
    fix, gain = finding.other_fix or ("", 0.0)
    assert (finding.kind, fix) == ("idle", THREAD)
    assert gain == pytest.approx(STEP_MS, rel=0.1)
    assert finding.evidence[-1] == f"another fix gains {gain:.2f} ms a step: {THREAD}"


def test_no_thread_is_told_for_a_shorter_pause(tmp_path: Path) -> None:
    assert diagnose(12, tmp_path).other_fix is None
