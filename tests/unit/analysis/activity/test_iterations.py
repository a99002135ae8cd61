"""Iterations of engines: found by marks, told apart by kind, and scored against the truth."""

from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.serving.budget import PARTS, measure_budget
from gpu_profile.analysis.activity.serving.marks import KINDS, NOT_TOLD, Mark, read_mark
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.our_tables.token_budget import TOKEN_BUDGET
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from tests.generator.serving import Server, Serving, serve
from tests.reading import diagnose_reports
from tests.unit.analysis.synthetic import ranks_of

DECODE, PREFILL, MIXED, UNKNOWN = range(4)
GAP_US = 2000


@pytest.mark.parametrize(
    ("name", "mark"),
    [
        ("execute_context_0(0)_generation_64(64)", Mark("vLLM", DECODE, 64, 0)),
        ("execute_context_2(900)_generation_0(0)", Mark("vLLM", PREFILL, 2, 900)),
        ("execute_context_1(512)_generation_63(63)", Mark("vLLM", MIXED, 64, 512)),
        ("execute_context_0(0)_generation_0(0)", Mark("vLLM", UNKNOWN, 0, 0)),
        ("step[DECODE bs=64]", Mark("SGLang", DECODE, 64, 0)),
        ("step[EXTEND bs=4 toks=512]", Mark("SGLang", PREFILL, 4, 512)),
        ("step[EXTEND bs=2 toks=64 c_sq=64 c_sk=1000]", Mark("SGLang", PREFILL, 2, 64)),
        ("step[MIXED bs=2]", Mark("SGLang", MIXED, 2, NOT_TOLD)),
        ("step[IDLE bs=0]", Mark("SGLang", UNKNOWN, 0, NOT_TOLD)),
        (
            "TensorRT-LLM:[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs",
            Mark("TensorRT-LLM", DECODE, 32, 0),
        ),
        (
            "[Executor] _forward_step 12: 1 ctx reqs, 3 gen reqs",
            Mark("TensorRT-LLM", MIXED, 4, NOT_TOLD),
        ),
        (
            "[Executor] _forward_step: 2 ctx reqs, 0 gen reqs",
            Mark("TensorRT-LLM", PREFILL, 2, NOT_TOLD),
        ),
        ("step 12", None),
        ("[Executor] _prepare_and_schedule_batch", None),
        ("gpu_model_runner: forward", None),
    ],
)
def test_a_mark_says_kind_and_batch(name: str, mark: Mark | None) -> None:
    assert read_mark(name) == mark


MARKED = (
    Server(engine="vLLM", chunk=512),
    Server(engine="SGLang", bursts=3),
    Server(engine="TensorRT-LLM", graphs="", chunk=256, bursts=3),
    Server(engine="vLLM", graphs="graph", verifies=3),
    Server(engine="SGLang", verifies=3),
    Server(engine="SGLang", models=2),
)


@pytest.mark.parametrize("server", MARKED)
def test_marked_iterations_are_those_of_the_server(server: Server, tmp_path: Path) -> None:
    run = serve(server)
    steps = find_run_steps(run, tmp_path)
    assert steps.source == f"marks of {server.engine}"
    true = run.iterations
    assert steps.host_start.tolist() == [iteration.host for iteration in true]
    assert [KINDS[kind] for kind in steps.kind.tolist()] == [iteration.kind for iteration in true]
    assert steps.batch.tolist() == [iteration.batch for iteration in true]
    assert np.array_equal(steps.start, [iteration.gpu for iteration in true])
    told = [row for row, pause in enumerate(steps.empty_ns.tolist()) if pause]
    assert all(true[row].alone for row in told)
    if server.bursts > 1:
        assert len(told) >= server.bursts - 1
        assert (steps.end - steps.start).max() < 400_000_000


UNMARKED = (
    Server(engine="", flashinfer=True, chunk=512),
    Server(engine="", flashinfer=True, graphs="", verifies=3),
    Server(engine="", graphs="graph"),
    Server(engine="", graphs="graph", chunk=256, models=2),
    Server(engine="", graphs="", chunk=512, copies=5),
)


@pytest.mark.parametrize("server", UNMARKED)
def test_iterations_without_marks_end_with_their_tokens(server: Server, tmp_path: Path) -> None:
    run = serve(server)
    steps = find_run_steps(run, tmp_path)
    true = {iteration.gpu: iteration.kind for iteration in run.iterations}
    kinds = dict(zip(steps.start.tolist(), (KINDS[kind] for kind in steps.kind), strict=True))
    assert len(kinds.keys() & true.keys()) >= 0.99 * len(true)
    assert len(kinds) <= len(true)
    wrong = [time for time, kind in kinds.items() if kind not in (true.get(time), "kind unknown")]
    assert not wrong
    if server.flashinfer:
        assert "kind unknown" not in kinds.values()


def test_a_training_of_jax_that_reads_its_loss_has_no_iterations(tmp_path: Path) -> None:
    """XLA's names say neither backward pass nor optimizer; each batch of an evaluation is read,
    too, so that the reads are more than the steps.
    """
    (rank,) = ranks_of(1)
    for step in range(20):
        for kernels in (20, 8, 8) if step % 5 == 4 else (20,):
            rank.copy(0.5)
            for number in range(kernels):
                rank.work(5)
                rank.kernel(60, f"loop_add_fusion_{number}" if number % 4 else "gemm_fusion_dot_1")
            rank.item()
    steps = find_rank_steps(rank.recording.save(tmp_path / "rank0.sqlite"))
    assert (len(steps), steps.are_iterations) == (20, False)


def find_run_steps(run: Serving, folder: Path) -> Steps:
    return find_rank_steps(run.save(folder))


def find_rank_steps(report: Path) -> Steps:
    with open_report(str(report)) as database:
        (activity,) = activities_of(database, Scope())
        return find_steps(activity)


BUDGETS = (
    Server(requests=12, gap_us=GAP_US, chunk=512),
    Server(requests=12, gap_us=GAP_US, graphs=""),
    Server(requests=12, gap_us=GAP_US, graphs="graph", engine="SGLang"),
)


@pytest.mark.parametrize("server", BUDGETS)
def test_the_parts_of_a_step_sum_to_it(server: Server, tmp_path: Path) -> None:
    with open_report(str(serve(server).save(tmp_path))) as database:
        (activity,) = activities_of(database, Scope())
        steps, budget = find_steps(activity), measure_budget(activity)
        table = TOKEN_BUDGET.table(database)
        text = next(diagnose_reports(database).overview.to_lines())
    assert np.array_equal(budget.of(*PARTS), steps.end - steps.start)
    decodes = np.flatnonzero(steps.kind[:-1] == DECODE)
    host, launch, hidden, products = (
        np.median(budget.of(part)[decodes]) / 1e3
        for part in ("host", "launch", "inside graphs", "matrix products")
    )
    assert GAP_US <= host < 1.02 * GAP_US
    # Copies of the tokens to the device, kernels one by one: a launch is the time of its call.
    assert launch < 100
    by_node = server.graphs != "graph"
    assert (products == 600) == by_node
    assert (hidden == 0) == by_node
    rows = zip(*(table.column(part.title()) for part in PARTS), strict=True)
    assert list(table.column("Step")) == [sum(map(int, row)) for row in rows]
    assert set(table.column("Quantile")) == {"median", "p95", "p99"}
    assert text.startswith("decode step: ")
    assert ("inside graphs" in text) != by_node
