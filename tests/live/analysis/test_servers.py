"""A recorded server of bench/serving: its iterations, by its own log, and what was planted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.serving.score import score_steps
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.multi_report.clocks import read_session_start
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.settings.places import ROOT
from tests.reading import diagnose_reports

SERVERS = ROOT / "tests" / "data" / "serving"
NO_ROWS = np.empty(0, np.int64)
PLAIN_GAIN_MS, PLAIN_STEP_MS = 7.98 - 5.87, 7.98
"""Of host_gap without a profiler: what its fix gains, and its step."""


def list_servers() -> list[Path]:
    return sorted(path.parent for path in SERVERS.rglob("steps.jsonl"))


@pytest.mark.parametrize("folder", list_servers(), ids=lambda folder: folder.name)
def test_iterations_are_those_of_the_log_with_marks_and_without(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    with open_report(str(folder / "rank0.sqlite.gz")) as database:
        utc = read_session_start(database)
        (activity,) = activities_of(database, Scope())
    for read in (activity, replace(activity, ranges=activity.ranges.pick(NO_ROWS))):
        steps = find_steps(read)
        counts = score_steps(lines, steps, utc)
        assert steps.are_iterations
        assert counts["logged"] >= 40
        assert counts["found"] >= 0.99 * counts["logged"]
        assert counts["wrong kind"] == 0
        assert counts["not logged"] <= 1


def test_a_host_gap_costs_what_its_fix_gains() -> None:
    with open_report(str(SERVERS / "node_host_gap" / "rank0.sqlite.gz")) as database:
        diagnosis = diagnose_reports(database)
    gap = next(finding for finding in diagnosis.findings if finding.kind == "decode_gap")
    assert gap.replayed_ms is not None
    assert abs(gap.replayed_ms - PLAIN_GAIN_MS) <= 0.1 * PLAIN_STEP_MS


def test_graphs_that_were_traced_as_a_whole_are_not_idle() -> None:
    with open_report(str(SERVERS / "graph_base" / "rank0.sqlite.gz")) as database:
        (line, *_) = diagnose_reports(database).overview.to_lines()
    assert "inside graphs" in line
    assert "not seen in what" in line
