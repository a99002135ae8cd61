"""Pauses of the host in the replay: long ones, and short ones between copies from and to it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.store.database import Database
from tests.reading import replay_reports
from tests.unit.analysis.synthetic import STREAM, US, Rank, ranks_of

TENSORS, WORK_US = 12, 60


def read(rank: Rank, megabytes: float) -> None:
    """Copy from the device to pageable memory; the host waits for it."""
    launch_time, size = rank.now, int(megabytes * 1e6)
    start = max(rank.free + US, launch_time + 4 * US)
    rank.free = start + int(size / 20)
    call = rank.call("cudaMemcpyAsync_v3020", (rank.free - launch_time) / US)
    place = (rank.rank, STREAM, call, rank.process, size, 2, 0, 2)
    rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, rank.free, *place)


def update_on_host(rank: Rank) -> None:
    """An optimizer on the CPU: gradients come, weights go back, the host works between."""
    for _ in range(TENSORS):
        read(rank, 1)
        rank.work(WORK_US)
        rank.copy(1, gb_per_s=20, pageable=True)


def send_batches(rank: Rank) -> None:
    """Copies to the device alone, with work between: no data comes back."""
    for _ in range(TENSORS):
        rank.copy(1, gb_per_s=20, pageable=True)
        rank.work(WORK_US)


@pytest.mark.parametrize(("act", "paused_us"), [(update_on_host, WORK_US), (send_batches, 0)])
def test_short_work_between_copies_from_and_to_the_host_is_one_pause(
    act: Callable[[Rank], None], paused_us: int, tmp_path: Path
) -> None:
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        for _ in range(8):
            rank.work(5)
            rank.kernel(500)
        act(rank)
        rank.kernel(200, "multi_tensor_apply_kernel<FusedAdamMathFunctor>")
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    silent_us = graph.calls.silent.sum() / US / graph.steps
    assert silent_us == pytest.approx(TENSORS * paused_us, rel=0.1)


@pytest.mark.parametrize(("copies", "paused_us"), [(3, 0), (1, 3 * 8 * 106)])
def test_a_thread_that_waits_for_another_one_does_not_pause(
    copies: int, paused_us: int, tmp_path: Path
) -> None:
    """XLA's copying threads copy what the main thread hands to them, several times a step; a thread
    that loads data copies once a step, and works in between.
    """
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        for turn in range(3):
            for _ in range(8):
                rank.work(100)
                rank.kernel(20)
            rank.lane = 1
            if turn < copies:
                rank.copy(0.01, gb_per_s=20)
            rank.lane = 0
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    assert graph.calls.silent.sum() / US / graph.steps == pytest.approx(paused_us, rel=0.1)


def test_a_thread_that_copies_once_a_step_of_few_launches_does_not_pause(tmp_path: Path) -> None:
    """As in JAX, where the main thread makes many other calls for each of its launches."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(40):
        for _ in range(6):
            for _ in range(16):
                rank.call("cuCtxSetCurrent", 1)
            rank.work(60)
            rank.kernel(20)
        for lane in (1, 2):
            rank.lane = lane
            rank.copy(0.01, gb_per_s=20)
            rank.lane = 0
            rank.kernel(5, "select")
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    assert not replay.graph.calls.silent.any()


def test_work_before_the_first_call_of_a_thread_is_a_pause(tmp_path: Path) -> None:
    """As in JAX, which compiles for a new shape on a thread that then makes calls of its own."""
    (rank,) = ranks_of(1)
    rank.events = True
    for step in range(40):
        for _ in range(8):
            rank.work(5)
            rank.kernel(100)
        if step % 5 == 0:
            rank.lane = 1 + step
            rank.work(20_000)
            rank.kernel(20, "autotuned")
            rank.lane = 0
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    begins = np.unique(graph.calls.thread, return_index=True)[1][1:]
    assert len(begins) > 1
    assert graph.calls.silent[begins] / US == pytest.approx(20_000, rel=0.01)
