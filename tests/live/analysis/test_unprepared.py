"""What is said of programs that nobody prepared, held against what their authors planted."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.activities import load_activities
from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.findings.diagnose import judge_run, make_views
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import diagnose_reports

DATA = Path(__file__).parents[2] / "data" / "unprepared"
TRAINING = (
    *("ddp_item", "straggler_compute", "straggler_loader", "trainer", "lightning_loader"),
    *("fsdp2_compile", "jax_data_parallel", "pipeline", "tensor_parallel", "single_eval"),
    *("collate", "experts"),
)
# The first steps are start-up: caches, autotuning, compilation.
WARM_UP = 2
# JAX dispatches 0.4 ms of Python before the first call that a recording shows, of 4.6 ms a step.
# straggler_loader waits for its batch inside its step, where a loop over a loader waits before it.
LARGER_SHIFT = {"jax_data_parallel", "straggler_loader"}
PLANTED = {
    "ddp_item": {("synchronization", "sync")},
    "straggler_compute": {("straggler", "compute")},
    "straggler_loader": {("straggler", "host")},
    "pipeline": {("pipeline", "stage")},
    "lightning_loader": {("idle", "host")},
    "collate": {("idle", "host")},
}


@contextmanager
def open_reports(name: str) -> Iterator[list[Database]]:
    with ExitStack() as stack:
        paths = sorted((DATA / name).glob("*.sqlite.gz"))
        yield [stack.enter_context(Database.open(path)) for path in paths]


def diagnose_program(name: str) -> Diagnosis:
    with open_reports(name) as databases:
        return diagnose_reports(*databases)


def read_truth(name: str) -> dict[str, np.ndarray]:
    truth = json.loads((DATA / name / "truth.json").read_text())
    return {report: np.array(steps) for report, steps in truth.items()}


def step_ranges(times: np.ndarray) -> Ranges:
    """NVTX ranges called step, one for each [begin, end]."""
    none = np.zeros(len(times), np.int64)
    return Ranges(times[:, 0], times[:, 1], none, none, none, ("step",), none)


@pytest.mark.parametrize("name", TRAINING)
def test_steps_are_those_of_the_program(name: str) -> None:
    for report, truth in read_truth(name).items():
        with Database.open(DATA / name / f"{report}.sqlite.gz") as database:
            for activity in load_activities(database, Scope()):
                steps = find_steps(activity)
                assert abs(len(steps) - len(truth)) <= 2, (report, steps.source)
                if name in LARGER_SHIFT:
                    continue
                begins = truth[WARM_UP:, 0]
                typical = np.median(np.diff(begins))
                shift = [np.abs(steps.host_start - begin).min() / typical for begin in begins]
                assert np.quantile(shift, 0.9) <= 0.05, (report, np.round(shift, 3))


@pytest.mark.parametrize("name", TRAINING)
def test_steps_begin_on_the_gpu_where_those_of_a_marked_twin_do(name: str) -> None:
    """The twin has an NVTX range "step" where the program logged its steps."""
    for report, truth in read_truth(name).items():
        with Database.open(DATA / name / f"{report}.sqlite.gz") as database:
            for activity in load_activities(database, Scope()):
                twin = find_steps(replace(activity, ranges=step_ranges(truth)))
                assert twin.source == "range step"
                begins = twin.start[WARM_UP:]
                typical = np.median(np.diff(begins))
                starts = find_steps(activity).start
                shift = [np.abs(starts - begin).min() / typical for begin in begins]
                assert np.quantile(shift, 0.9) <= 0.01, (report, np.round(shift, 3))


def test_gpus_of_one_process_agree_on_the_boundaries() -> None:
    """JAX launches for each GPU from a thread of its own, the second GPU's some us earlier."""
    with open_reports("jax_data_parallel") as (database,):
        first, second = (find_steps(activity) for activity in load_activities(database, Scope()))
    assert len(first) == len(second)
    assert first.host_start.tolist() == second.host_start.tolist()
    apart = np.abs(first.start - second.start) / np.median(np.diff(first.start))
    assert np.quantile(apart, 0.75) <= 0.05, np.round(apart, 3)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_cause_is_named(name: str) -> None:
    findings = {(finding.kind, finding.cause) for finding in diagnose_program(name).findings}
    assert PLANTED[name] <= findings


def test_the_straggler_is_the_rank_that_computes_more() -> None:
    first, *_ = diagnose_program("straggler_compute").findings
    assert (first.kind, first.cause, first.ranks) == ("straggler", "compute", (0,))


def test_the_straggler_whose_loader_is_slow_has_the_loader_in_its_evidence() -> None:
    findings = diagnose_program("straggler_loader").findings
    (finding,) = (finding for finding in findings if finding.kind == "straggler")
    assert any(
        line.endswith("as a rank that waits for its data loader") for line in finding.evidence
    )


def test_the_stage_with_more_layers_bounds_the_pipeline() -> None:
    (finding,) = (f for f in diagnose_program("pipeline").findings if f.kind == "pipeline")
    assert finding.ranks == (0,)


def test_the_rank_with_most_of_the_tokens_has_the_busiest_experts() -> None:
    """The hosts are so slow that a balance gains nothing now: the rule sees it, nobody is told."""
    with open_reports("experts") as databases:
        run = run_of([survey_report(database) for database in databases])
        scopes = run.join([str(database.path) for database in databases])
        pairs = zip(databases, scopes, strict=True)
        parts = [collect_report_facts(database, scope) for database, scope in pairs]
    views = make_views([facts for part in parts for facts in part.ranks], 0)["experts"]
    (finding,) = RULES["experts"].judge(views).findings
    assert finding.ranks == (1,)
    assert "the experts of rank 1 get 1.60 times the mean of tokens" in " ".join(finding.evidence)
    assert not {"experts", "straggler"} & {finding.kind for finding in judge_run(parts).findings}


def test_every_third_step_waits_for_the_loader() -> None:
    (finding,) = (f for f in diagnose_program("lightning_loader").findings if f.kind == "idle")
    assert any("every 3rd step" in line for line in finding.evidence)


def test_an_item_in_each_step_is_named() -> None:
    findings = diagnose_program("ddp_item").findings
    (finding,) = (f for f in findings if f.kind == "synchronization")
    assert any(".item()" in line for line in finding.evidence)


def test_the_seams_of_windows_are_no_idle_time() -> None:
    """Rank 0 begins each later window 20 ms after rank 1, while the profiler starts."""
    diagnosis = diagnose_program("windows")
    assert all(finding.cost_ms < 1 for finding in diagnosis.findings if finding.kind == "idle")
    with open_reports("windows") as databases:
        run = run_of([survey_report(database) for database in databases])
        scope = run.join([str(database.path) for database in databases])[0]
        (activity,) = activities_of(databases[0], scope)
        steps = find_steps(activity)
    assert len(activity.seams) == 2
    ends = [int(steps.end[steps.end <= before].max()) for before in activity.seams[:, 0]]
    assert ends == activity.seams[:, 0].tolist()


@pytest.mark.parametrize("name", ["fsdp2_compile", "jax_data_parallel", "inference_graphs"])
def test_the_parts_of_a_start_up_are_no_more_than_the_whole(name: str) -> None:
    """FSDP2 compiles in its first steps, and each program imports for seconds first."""
    start_up = diagnose_program(name).overview.start_up
    assert start_up is not None
    assert 0.95 * start_up.seconds <= sum(start_up.parts.values()) <= start_up.seconds
    assert start_up.parts["before the first CUDA call (imports)"] > 1
    assert (start_up.parts.get("the first steps", 0) > 5) == (name == "fsdp2_compile")
    assert (start_up.compiled > 0) == (name == "fsdp2_compile")
    assert (start_up.parts.get("compiling", 0) > 0) == (name == "jax_data_parallel")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in DATA.glob("*/truth.json")))
def test_start_up_is_no_finding(name: str) -> None:
    """Start-up takes 10 s and a step at most 70 ms: no finding may cost more than a step.

    Of a program that evaluates every 10 steps that is the mean step, not the usual one.
    """
    diagnosis = diagnose_program(name)
    typical = max(np.diff(steps[3:, 0]).mean() for steps in read_truth(name).values()) / 1e6
    costs = {f.kind: f.at_most_ms for f in diagnosis.findings if f.per_step}
    assert all(cost <= typical for cost in costs.values()), costs
