"""Copies of pageable memory, which pinned memory makes fast, and the waits right after them."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.activity import COPY_TO_DEVICE, COPY_TO_HOST
from gpu_profile.analysis.replay.edits.causes import PAGEABLE_COPIES
from gpu_profile.analysis.store.database import Database
from tests.reading import replay_reports
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import Rank, ranks_of

KERNELS_US, PINNED_US, WORK_US = 2_000, 200, 1_000


def run_step(rank: Rank, kind: int) -> None:
    """The host copies 10 MB, waits as .to(device) does, launches a short kernel, and works before
    it launches the others.
    """
    rank.copy(10, gb_per_s=10, pageable=True, kind=kind)
    rank.synchronize()
    rank.kernel(20)
    rank.work(WORK_US)
    for _ in range(4):
        rank.kernel(KERNELS_US / 4)


@pytest.mark.parametrize(
    ("kind", "left_us"),
    [(COPY_TO_DEVICE, KERNELS_US + PINNED_US), (COPY_TO_HOST, KERNELS_US + PINNED_US + WORK_US)],
)
def test_a_wait_right_after_a_copy_to_the_gpu_goes_with_it(
    kind: int, left_us: float, tmp_path: Path
) -> None:
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        run_step(rank, kind)
        rank.range("step", start)
    with Database.open(rank.recording.save(tmp_path / "rank0.host0.sqlite")) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    assert predict_us(replay.graph, PAGEABLE_COPIES.apply) == pytest.approx(left_us, rel=0.05)
