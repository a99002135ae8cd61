"""Values that a thread of XLA's copies for the one that asks: waits without a call that blocks."""

from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.causes import PAUSES, WAITS
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import STREAM, US, Rank, ranks_of

KERNEL_US, WAKE_US, WORK_US = 2000, 100, 300


def read_value(rank: Rank) -> None:
    """The GPU calls the host function, and a thread copies; then the first one goes on."""
    rank.call("cuLaunchHostFunc", 4)
    rank.now = rank.free
    rank.work(WAKE_US)
    rank.lane = 1
    rank.call("cuCtxSetCurrent", 1)
    start = rank.free = rank.now + 8 * US
    call = rank.call("cuMemcpyDtoHAsync_v2", 12)
    rank.free += US
    place = (rank.rank, STREAM, call, rank.process, 4, 2, 2, 1)
    rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, rank.free, *place)
    rank.call("cuLaunchHostFunc", 4)
    rank.lane = 0
    rank.work(WAKE_US)


def record(folder: Path) -> Path:
    """Steps of a kernel of 2 ms and a read of its result, after 0.3 ms of work."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(24):
        start = rank.now
        for _ in range(3):
            rank.work(WORK_US / 3)
            rank.call("cuCtxSetCurrent", 1)
        rank.kernel(KERNEL_US)
        read_value(rank)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


def test_a_read_by_another_thread_is_a_wait_and_no_pause(tmp_path: Path) -> None:
    with Database.open(record(tmp_path)) as database:
        replay = replay_reports(database)
        assert not isinstance(replay, str), replay
        finding = diagnose_reports(database, control_ms=replay.step_ms).findings[0]
    assert predict_us(replay.graph, PAUSES.apply) == pytest.approx(1e3 * replay.step_ms, rel=0.02)
    assert predict_us(replay.graph, WAITS.apply) == pytest.approx(KERNEL_US, rel=0.02)
    assert finding.kind == "synchronization"
    assert any("1.0 times a step, held the host 1.99 ms" in line for line in finding.evidence)
