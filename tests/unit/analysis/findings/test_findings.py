"""What diagnose says of the recorded runs: what was found in them by hand."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import drop_lone_rank
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import diagnose_reports

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
RECORDED_MS = 26.0
"""More than a recorded step takes."""


def of(*names: str, control_ms: float = 0.0) -> Diagnosis:
    databases = [Database.open(DATA / f"{name}.sqlite.gz") for name in names]
    try:
        return diagnose_reports(*databases, control_ms=control_ms)
    finally:
        for database in databases:
            database.close()


@pytest.fixture(scope="module")
def one_report() -> Diagnosis:
    """Of a program whose steps take as long without the profiler."""
    return of("all-ranks-one-report", control_ms=RECORDED_MS)


@pytest.fixture(scope="module")
def four_reports() -> Diagnosis:
    return of(*(f"rank{rank}" for rank in range(4)), control_ms=RECORDED_MS)


@pytest.mark.recorded
def test_rank_0_is_the_straggler_because_of_its_host(one_report: Diagnosis) -> None:
    assert [(f.kind, f.ranks, f.cause) for f in one_report.findings] == [
        ("host_bound", (0,), "launch"),
        ("straggler", (0,), "host"),
        ("no_tensor_cores", (0, 1, 2, 3), "fp32"),
    ]


@pytest.mark.recorded
def test_its_evidence_says_that_all_reduce_waits(one_report: Diagnosis) -> None:
    straggler = one_report.findings[1]
    assert straggler.evidence[:2] == (
        "rank 0 arrived last in 57 of 57 collectives",
        "ranks 1-3: exposed collectives are 6.86 ms a step of wait and 0.25 ms of transfer, "
        "so not the network",
    )
    assert straggler.at_most_ms == pytest.approx(9.54, abs=0.01)  # half of what compute hides


@pytest.mark.recorded
def test_the_late_ranks_idle_time_is_told_once(one_report: Diagnosis) -> None:
    """Faster launches on all ranks gain 9.6 ms. A host of rank 0 as fast as the others' gains 2.4
    ms of that: then the hosts of the others set the step."""
    host_bound, straggler, _ = one_report.findings
    assert host_bound.cost_ms == pytest.approx(9.6, abs=0.1)
    assert straggler.cost_ms == pytest.approx(2.4, abs=0.1)
    assert straggler.evidence[-1].startswith("the same loss as host_bound on rank 0")
    assert any("while its host issued work too slowly" in line for line in straggler.evidence)


@pytest.mark.recorded
def test_four_reports_have_no_straggler(four_reports: Diagnosis) -> None:
    """By hand: ranks 0, 2 and 3 come last in 19, 10 and 31 of 60; every host is late and prepares
    7 ms of data a step."""
    assert [(f.kind, f.cause) for f in four_reports.findings] == [
        ("idle", "data"),
        ("host_bound", "launch"),
        ("no_tensor_cores", "fp32"),
    ]
    assert four_reports.findings[0].ranks == four_reports.findings[1].ranks == (0, 1, 2, 3)
    assert any("comes last steadily" in note for note in four_reports.unjudged)


def test_one_rank_of_four_says_what_it_cannot_judge(short_run: Path) -> None:
    with Database.open(short_run / "rank2.sqlite") as database:
        diagnosis = diagnose_reports(database)
    assert "straggler" not in {finding.kind for finding in diagnosis.findings}
    assert any(note.startswith("stragglers: the reports hold one") for note in diagnosis.unjudged)
    assert any("cannot be told apart" in note for note in diagnosis.unjudged)


@pytest.mark.recorded
def test_findings_are_ordered_by_what_could_be_won(four_reports: Diagnosis) -> None:
    """Those of the plan come first, in its order."""
    assert isinstance(four_reports.plan, Plan)
    planned = [kind for item in four_reports.plan.items for kind in item.change.kinds]
    kinds = [finding.kind for finding in four_reports.findings]
    assert [kind for kind in planned if kind in kinds] == kinds[:3]
    assert len(kinds) == 3


@pytest.mark.recorded
def test_a_part_is_small_and_pickles(one_report: Diagnosis) -> None:
    with Database.open(DATA / "all-ranks-one-report.sqlite.gz") as database:
        part = collect_report_facts(database, Scope())
    packed = pickle.dumps(part)
    assert len(pickle.dumps(replace(part, graphs=()))) < 1_000_000
    assert len(packed) < 4_000_000  # four ranks, each with the graph of 19 steps
    again = judge_run([pickle.loads(packed)], control=PlainStep(RECORDED_MS))
    assert again.to_json() == one_report.to_json()


@pytest.mark.recorded
def test_the_text_is_complete(one_report: Diagnosis) -> None:
    text = one_report.to_text()
    assert text.startswith("1. host_bound on 0: launch, 9.")
    assert "3. no_tensor_cores on 0, 1, 2, 3: fp32" in text
    assert "then: fp32 matrix products, 6." in text
    assert text.count("\n1. ") + text.count("\n2. ") == 1
    assert one_report.to_table().column("Kind") == ("host_bound", "straggler", "no_tensor_cores")


def test_a_lone_rank_is_not_named() -> None:
    texts = {
        "rank 0: 5 of 9 ms a step idle; most on rank 0, 56 %": "5 of 9 ms a step idle (56 %)",
        "single steps: rank 0: too few": "single steps: too few",
        "median of 9 steps of rank 0, the slowest; found": "median of 9 steps; found",
        "start-up: 1.2 s on rank 0, of which 1.0 s": "start-up: 1.2 s, of which 1.0 s",
        "seen on rank 0": "",
        "rank 01: x in model.rank 0: y": "rank 01: x in model.rank 0: y",
    }
    assert {text: drop_lone_rank(text) for text in texts} == texts
