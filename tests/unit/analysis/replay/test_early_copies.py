"""Copies of pinned memory to the GPU, which could run beside the kernels that held them up."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.early_copies import copy_early
from gpu_profile.analysis.replay.shadow.host_scale import scale_host
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import STREAM, US, Rank, ranks_of

KERNELS_US, COPY_US = 8 * 500, 800
Act = Callable[[Rank], None]


def copy_batch(rank: Rank) -> None:
    """Two tensors, 800 us together."""
    rank.copy(30)
    rank.copy(10)


def copy_much(rank: Rank) -> None:
    """Three tensors, 6,000 us together: they take longer than the kernels."""
    for _ in range(3):
        rank.copy(100)


def copy_after_wait(rank: Rank) -> None:
    """The host waits for a result; the batch was there before, so its copy could be called then."""
    rank.synchronize()
    copy_batch(rank)


def copy_after_work(rank: Rank) -> None:
    """The host may have made the batch from the result for which it waited."""
    rank.synchronize()
    rank.work(2 * COPY_US)
    rank.copy(40)


def copy_by_results(rank: Rank) -> None:
    """Two results in a step may tell the host which data to copy."""
    for _ in range(2):
        rank.synchronize()
        rank.copy(20)
        rank.kernel(500)


def send_result(rank: Rank) -> None:
    """40 MB to pinned memory."""
    call = rank.call("cudaMemcpyAsync_v3020", rank.launch_us)
    start = rank.free + US
    rank.free = start + 800 * US
    place = (rank.rank, STREAM, call, rank.process, 40_000_000, 2, 2, 1)
    rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, rank.free, *place)


def take_back(rank: Rank) -> None:
    """What the GPU has made goes to pinned memory and back: it is not there at the call."""
    send_result(rank)
    rank.kernel(50)
    rank.copy(40)


def filter_frames(rank: Rank) -> None:
    """A result goes, and the next frame comes, of as many bytes."""
    send_result(rank)
    rank.copy(40)


def record(act: Act, folder: Path) -> Path:
    """Steps of 4 ms of kernels behind what `act` copies; the host runs ahead of its GPU."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        act(rank)
        for _ in range(8):
            rank.work(5)
            rank.kernel(500)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


@pytest.mark.parametrize(
    ("act", "left_us"),
    [
        (copy_batch, KERNELS_US),
        (copy_much, 6000),
        (copy_after_wait, KERNELS_US),
        (copy_after_work, KERNELS_US + 3 * COPY_US),
        (copy_by_results, KERNELS_US + 1000 + COPY_US),
        (take_back, KERNELS_US + 2 * COPY_US),
        (filter_frames, KERNELS_US + COPY_US),
    ],
)
def test_a_copy_runs_beside_the_kernels_that_ran_after_its_call(
    act: Act, left_us: float, tmp_path: Path
) -> None:
    with Database.open(record(act, tmp_path)) as database:
        replay = replay_reports(database)
        findings = diagnose_reports(database).findings
    assert not isinstance(replay, str), replay
    assert predict_us(replay.graph, copy_early) == pytest.approx(left_us, rel=0.02)
    is_found = "exposed_copy" in {finding.kind for finding in findings}
    assert is_found == (act in {copy_batch, copy_much, copy_after_wait, filter_frames})


def record_slow_host(folder: Path) -> Path:
    """Steps of 4 ms of kernels after a copy; the host takes as long, and is not ahead."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        copy_batch(rank)
        for _ in range(80):
            rank.work(54)
            rank.kernel(50)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


def test_a_host_that_only_the_profiler_slows_calls_its_copies_earlier(tmp_path: Path) -> None:
    with Database.open(record_slow_host(tmp_path)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    weights = scale_host(graph, Weights.of(graph), 0.5)
    assert predict_us(graph, copy_early) > KERNELS_US + COPY_US / 2
    left_ms = replay.predict_step(copy_early(graph, weights))
    assert 1e3 * left_ms == pytest.approx(KERNELS_US, rel=0.04)
