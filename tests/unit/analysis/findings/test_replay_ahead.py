"""A run that is replayed before all of it is read."""

from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import DiagnosedReport, collect_report_facts
from gpu_profile.analysis.findings.replay_ahead import ReplayAhead, choose_replay, replay_ahead
from gpu_profile.analysis.replay.collect import ReplayPart, collect_replay, join_parts
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PlainStep
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope

DATA = Path(__file__).parents[3] / "data"
COLLATE = DATA / "unprepared" / "collate" / "rank0.sqlite.gz"


@pytest.fixture(scope="module")
def read() -> tuple[ReplayPart, DiagnosedReport]:
    with Database.open(COLLATE) as database:
        return collect_replay(database, Scope()), collect_report_facts(database, Scope())


@pytest.mark.parametrize(
    "control",
    [
        NO_STEP,
        PlainStep(13.7, 1_000, phases=(0.7, 0.0, 0.7)),
        PlainStep(ratio=0.7),
    ],
)
def test_a_run_that_is_replayed_ahead_is_judged_as_any(
    read: tuple[ReplayPart, DiagnosedReport], control: PlainStep
) -> None:
    part, facts = read
    ahead = replay_ahead(join_parts([part]), 1, control)
    assert isinstance(ahead.replay, Replay)
    replay = choose_replay([facts], 0, 1, ahead)
    assert replay is ahead.replay
    assert (
        judge_run([facts], 0, control, replay).to_json() == judge_run([facts], 0, control).to_json()
    )


def test_a_replay_of_a_report_that_was_not_read_to_its_end_is_left(
    read: tuple[ReplayPart, DiagnosedReport],
) -> None:
    _, facts = read
    ahead = ReplayAhead("of two reports", reports=2)
    assert isinstance(choose_replay([facts], 0, 1, ahead), Replay)
    assert isinstance(choose_replay([facts], 0, 1, None), Replay)
