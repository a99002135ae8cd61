"""Runs of more ranks than are replayed: what is predicted is what a fix gains."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.plan.make_plan import make_plan
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.store.database import Database
from tests.further import further
from tests.generator.gains import fix
from tests.generator.judge import mean_step, recorded_steps, run_program
from tests.generator.parallel import PIPELINE, TENSOR, ParallelProgram
from tests.generator.program import Plant
from tests.reading import replay_reports

BASE = ParallelProgram(
    seed=1,
    kind=TENSOR,
    shape=(1, 4, 6),
    steps=9,
    layers=2,
    kernels=(100.0, 150.0),
    microbatches=4,
    interleaved=True,
    transfer_us=10.0,
    jitter=0.005,
    marks="step",
    copies_batch=True,
    separate_reports=True,
    slow_steps=0,
    window=None,
    plant=Plant("slow_gpu", (17,), 0.3),
)


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (BASE, "rank 17's compute"),
        further(
            replace(
                BASE,
                kind=PIPELINE,
                shape=(3, 2, 3),
                plant=Plant("uneven_stage", tuple(range(6, 12)), 1.0),
            ),
            "unequal compute of the ranks",
        ),
    ],
)
def test_of_many_ranks_the_late_ones_are_replayed(
    program: ParallelProgram, text: str, tmp_path: Path
) -> None:
    """24 ranks in tensor groups of four; 18 in pipelines of three stages with tensor groups."""
    run = run_program(program)
    with ExitStack() as stack:
        databases = [stack.enter_context(Database.open(path)) for path in run.save(tmp_path)]
        replay = replay_reports(*databases)
    assert isinstance(replay, Replay), replay
    assert len(replay.graph.ranks) <= 16
    assert set(program.plant.ranks) & {graph.rank for graph in replay.graph.ranks}
    item = make_plan(replay, most=1).items[0]
    assert text in (item.change.text, *(other.text for other in item.alternatives))
    steps = recorded_steps(run)
    fixed = mean_step(run_program(fix(program, program.plant)).truth, steps) / 1e6
    assert item.before_ms == pytest.approx(mean_step(run.truth, steps) / 1e6, rel=0.02)
    assert item.after_ms == pytest.approx(fixed, rel=0.05)
