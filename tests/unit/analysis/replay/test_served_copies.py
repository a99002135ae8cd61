"""Copies for work that the host does in pauses: without the work they are not made."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.causes import PAUSES
from gpu_profile.analysis.replay.edits.host_work import describe_served_copies, find_served_copies
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_pauses import TENSORS, read, send_batches, update_on_host
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import Rank, ranks_of

KERNELS_US, PAUSE_US = 8 * 500 + 200, 9000
Act = Callable[[Rank], None]


def measure_on_host(rank: Rank) -> None:
    """A metric of 1 MB of results on the host, then a batch of 2 MB, 100 us at 20 GB/s."""
    read(rank, 1)
    rank.work(PAUSE_US)
    rank.copy(2, gb_per_s=20, pageable=True)


def load_after_results(rank: Rank) -> None:
    """Results are read, and a loader makes the next batch."""
    read(rank, 1)
    start = rank.now
    rank.work(PAUSE_US)
    rank.range("load_batch", start)


def print_loss(rank: Rank) -> None:
    """A value of a few bytes is read before a pause, for whatever reason."""
    read(rank, 1e-5)
    rank.work(PAUSE_US)


def keep_outputs(rank: Rank) -> None:
    """Outputs of 500 MB come in 25 ms, and the host then frees old ones."""
    read(rank, 500)
    rank.work(PAUSE_US)


def read_at_once(rank: Rank) -> None:
    read(rank, 1)
    rank.work(5)


def record(act: Act, folder: Path) -> Path:
    """Steps of 4.2 ms of kernels, with `act` before the last one."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        for _ in range(8):
            rank.work(5)
            rank.kernel(500)
        act(rank)
        rank.kernel(200, "multi_tensor_apply_kernel<FusedAdamMathFunctor>")
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


@pytest.mark.parametrize(
    ("act", "copies", "left_us"),
    [
        (update_on_host, 2 * TENSORS, KERNELS_US),
        (measure_on_host, 1, KERNELS_US + 100),
        (print_loss, 0, None),
        (send_batches, 0, None),
        (read_at_once, 0, None),
        (keep_outputs, 0, KERNELS_US + 25_000),
    ],
)
def test_copies_of_work_on_the_host_go_with_it(
    act: Act, copies: int, left_us: float | None, tmp_path: Path
) -> None:
    with Database.open(record(act, tmp_path)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    graph = replay.graph
    assert len(find_served_copies(graph)) == copies * graph.steps
    assert bool(describe_served_copies(graph)) == (copies > 0)
    if left_us is not None:
        assert predict_us(graph, PAUSES.apply) == pytest.approx(left_us, rel=0.02)


def test_a_pause_tells_the_copies_that_serve_it(tmp_path: Path) -> None:
    with Database.open(record(measure_on_host, tmp_path)) as database:
        first = diagnose_reports(database).findings[0]
    assert first.kind == "idle"
    told = "1.0 copies a step of pageable memory, 1.00 MB, serve"
    assert any(line.startswith(told) for line in first.evidence)


def test_a_loader_needs_no_copies_that_come_before_it(tmp_path: Path) -> None:
    """Its pause of 9 ms goes; the kernels and the copy of 50 us, which blocks, stay."""
    with Database.open(record(load_after_results, tmp_path)) as database:
        first = diagnose_reports(database).findings[0]
    assert (first.kind, first.cause) == ("idle", "data")
    assert first.cost_ms == pytest.approx(PAUSE_US / 1e3, rel=0.02)
    assert not any("serve that work" in line for line in first.evidence)
