"""State that lives on the host, and the host's work on it between its copies back and there."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.causes import PAGEABLE_COPIES, PAUSES
from gpu_profile.analysis.replay.edits.offloaded_state import find_state_pauses
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_pauses import read
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import Rank, ranks_of

SIZES = (4, 1, 1, 2, 2, 2, 1, 1)
KERNEL_US, PAUSE_US = 300, 3_000


def train(rank: Rank, there: Sequence[float], back: Sequence[float], last_kernels: int) -> None:
    """A kernel after each copy of so many MB to the GPU and before each one back, `last_kernels`
    after them all, and work of the host.
    """
    for size in there:
        rank.copy(size, gb_per_s=10, pageable=True)
        rank.kernel(KERNEL_US)
    for size in back:
        rank.kernel(KERNEL_US)
        read(rank, size)
    for _ in range(last_kernels):
        rank.kernel(KERNEL_US)
    rank.work(PAUSE_US)


def record(
    folder: Path, there: Sequence[float], back: Sequence[float], last_kernels: int = 0
) -> Path:
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        train(rank, there, back, last_kernels)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


@pytest.mark.parametrize(
    ("there", "back", "last_kernels", "is_of_state"),
    [
        (SIZES, SIZES, 0, True),
        # Weights that are fetched twice, and a batch.
        ((*SIZES, *SIZES, 0.5), SIZES, 0, True),
        # Results, which go nowhere.
        (SIZES, [3] * 8, 0, False),
        # A batch that has the size of a result.
        (SIZES[:5], SIZES[:5], 0, False),
        # The host goes on to launch before it works.
        (SIZES, SIZES, 1, False),
    ],
)
def test_work_between_the_copies_back_and_there_is_of_the_state(
    there: Sequence[float],
    back: Sequence[float],
    last_kernels: int,
    is_of_state: bool,
    tmp_path: Path,
) -> None:
    with Database.open(record(tmp_path, there, back, last_kernels)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    # The first step of the replayed ones has no copy before it.
    steps = replay.graph.steps - 1
    assert len(find_state_pauses(replay.graph)) == is_of_state * steps


def test_pageable_copies_of_state_are_told_with_the_work_on_it(tmp_path: Path) -> None:
    with Database.open(record(tmp_path, SIZES, SIZES)) as database:
        replay = replay_reports(database)
        findings = diagnose_reports(database).findings
    assert not isinstance(replay, str), replay
    left_us = predict_us(replay.graph, PAGEABLE_COPIES.apply)
    kernels_us = 2 * len(SIZES) * KERNEL_US
    assert kernels_us <= left_us <= 1.2 * kernels_us
    assert predict_us(replay.graph, PAUSES.apply) > left_us + 1_000
    assert [finding.kind for finding in findings] == ["pageable_copy"]
    assert (
        findings[0]
        .evidence[-1]
        .startswith(
            "what comes back is of the sizes that go to the GPU, and the host works on it between"
        )
    )
