"""Costs of findings by replay, held against what was planted in recorded programs."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import states_of
from gpu_profile.analysis.activity.start_up import StartUp
from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import (
    DiagnosedReport,
    collect_by_kind,
    collect_lean_facts,
    collect_report_facts,
    join_facts,
    replay_parts,
)
from gpu_profile.analysis.findings.evidence.hidden_kernels import HIDDEN
from gpu_profile.analysis.replay.collect import collect_graphs
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.analysis.replay.rank.rank_graph import RankGraph
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PlainStep
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture(scope="module")
def collate() -> DiagnosedReport:
    """Of a program whose collate function takes 6 ms of Python in each step."""
    with Database.open(DATA / "unprepared" / "collate" / "rank0.sqlite.gz") as database:
        return collect_report_facts(database, Scope())


def test_the_cost_is_the_step_less_the_step_without_the_cause(collate: DiagnosedReport) -> None:
    diagnosis = judge_run([collate], control=PlainStep(13.7))
    (idle,) = (finding for finding in diagnosis.findings if finding.kind == "idle")
    assert idle.cost_ms == pytest.approx(6.5, rel=0.05)
    assert idle.as_json()["ms_per_step"] == round(idle.cost_ms, 3)
    assert "at_most_ms_per_step" not in idle.as_json()
    assert idle.describe_cost().endswith(" ms a step")


def test_facts_by_parts_are_the_whole_facts(collate: DiagnosedReport) -> None:
    with Database.open(DATA / "unprepared" / "collate" / "rank0.sqlite.gz") as database:
        lean, graphs = collect_lean_facts(database, Scope()), collect_graphs(database, Scope())
        by_kind, states = collect_by_kind(database, Scope()), states_of(database, Scope())
    (facts,) = lean.ranks
    assert not len(facts.common.states.exposed.start)
    late = replace(facts.common.states, start_up=StartUp(0, 1, {}, 0))
    changed = replace(lean, ranks=(replace(facts, common=replace(facts.common, states=late)),))
    (joined,) = join_facts(changed, by_kind, graphs, states).ranks
    assert joined.common.states.start_up == late.start_up
    assert joined.common.states.packed_exposed is states[0].packed_exposed
    whole = join_facts(lean, by_kind, graphs, states)
    assert whole.ranks[0].common.states is states[0]
    assert judge_run([whole]).to_json() == judge_run([collate]).to_json()


@pytest.mark.further
def test_several_processes_tell_what_one_tells(collate: DiagnosedReport) -> None:
    alone, side_by_side = (
        judge_run([collate], replay=replay_parts([collate], processes=processes))
        for processes in (1, 3)
    )
    assert alone.findings
    assert side_by_side.to_json() == alone.to_json()


@pytest.mark.recorded
def test_without_a_replay_the_cost_is_a_limit() -> None:
    """A process with several GPUs is not replayed."""
    with Database.open(DATA / "unprepared" / "jax_data_parallel" / "rank0.sqlite.gz") as database:
        diagnosis = judge_run([collect_report_facts(database, Scope())])
    assert diagnosis.plan == "rank 1: its process drives several GPUs"
    for finding in diagnosis.findings:
        assert finding.replayed_ms is None
        assert finding.as_json()["ms_per_step"] is None
        assert not finding.cost_ms or finding.describe_cost().startswith("at most ")


def test_without_a_control_the_profilers_usual_price_is_subtracted(
    collate: DiagnosedReport,
) -> None:
    """The recorded step of 13.7 ms is the host's; without the profiler 11.8 are expected."""
    plan = judge_run([collate]).plan
    assert isinstance(plan, Plan)
    assert (plan.recorded_ms, plan.step_ms) == pytest.approx((13.7, 11.8), abs=0.1)
    assert "about 11.8" in plan.to_lines()[0]
    assert not plan.as_json()["is_factor_measured"]
    (graph,) = collate.graphs
    assert isinstance(graph, RankGraph)
    foreign = replace(collate, graphs=(replace(graph, profiler=""),))
    plan = judge_run([foreign]).plan
    assert isinstance(plan, Plan)
    assert (plan.host_factor, plan.step_ms) == (None, plan.recorded_ms)


@pytest.mark.further
def test_without_a_control_what_launches_cost_has_a_range(collate: DiagnosedReport) -> None:
    """By the least and the most that the profiler took of launches in other programs."""
    recorded, controlled = judge_run([collate]), judge_run([collate], control=PlainStep(11.8))
    (bound,) = (finding for finding in recorded.findings if finding.kind == "host_bound")
    assert bound.range_ms is not None
    low, high = bound.range_ms
    assert 0 < low < bound.cost_ms < high
    assert bound.as_json()["ms_per_step_range"] == [round(low, 3), round(high, 3)]
    assert [finding.range_ms for finding in controlled.findings] == [None] * len(
        controlled.findings
    )


def test_a_control_of_forwards_is_a_part_of_the_recorded_step(collate: DiagnosedReport) -> None:
    plan = judge_run([collate]).plan
    assert isinstance(plan, Plan)
    by_ratio = judge_run([collate], control=PlainStep(ratio=11.8 / plan.recorded_ms)).to_json()
    assert by_ratio == judge_run([collate], control=PlainStep(11.8)).to_json()


def test_nothing_is_to_do_where_nothing_is_found() -> None:
    """CUDA graphs whose launches may be slow because they were recorded."""
    with Database.open(DATA / "h200-tables" / "graphs-by-graph.sqlite.gz") as database:
        diagnosis = judge_run([collect_report_facts(database, Scope())])
    assert isinstance(diagnosis.plan, Plan)
    assert max(diagnosis.plan.gains.values()) > 0.03 * diagnosis.plan.step_ms
    assert (diagnosis.findings, diagnosis.plan.items) == ((), ())
    assert "Nothing found that is worth the time.\n" in diagnosis.to_text()
    assert diagnosis.unjudged == (HIDDEN,)


def test_without_a_replay_idle_time_is_no_more_than_the_control_leaves(
    collate: DiagnosedReport,
) -> None:
    """The GPU works for 6.1 of the recorded 13.7 ms, so it idles for 3.9 of a control of 10 ms."""
    recorded, limited = (
        next(
            finding.at_most_ms
            for finding in judge_run([collate], 0, control, replay="no replay").findings
            if finding.kind == "idle"
        )
        for control in (NO_STEP, PlainStep(10.0))
    )
    assert recorded == pytest.approx(6.1, abs=0.1)
    assert limited == pytest.approx(3.9, abs=0.1)
