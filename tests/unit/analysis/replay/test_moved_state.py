"""State that a program takes to the GPU and back in each step."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_profile.analysis.replay.edits.causes import PAGEABLE_COPIES
from gpu_profile.analysis.replay.edits.moved_state import find_moved_state
from gpu_profile.analysis.store.database import Database
from tests.reading import diagnose_reports, replay_reports
from tests.unit.analysis.replay.test_pauses import read
from tests.unit.analysis.replay.test_plan import predict_us
from tests.unit.analysis.synthetic import Rank, ranks_of

SIZES = (8, 1, 1, 2, 2, 2, 1, 1)
KERNELS_US, PAUSE_US = 8 * 500, 120


def use_state(rank: Rank, there: Sequence[float], back: Sequence[float]) -> None:
    """Copies of so many MB to the GPU, kernels, and copies of so many back; the host works between
    the copies.
    """
    for size in there:
        rank.copy(size, gb_per_s=20, pageable=True)
        rank.work(PAUSE_US)
    for _ in range(4):
        rank.kernel(500)
    for size in back:
        read(rank, size)
        rank.work(PAUSE_US)


def record(folder: Path, there: Sequence[float], back: Sequence[float], between: int = 4) -> Path:
    """Steps of 4 ms of kernels, of which `between` follow the copies back."""
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        use_state(rank, there, back)
        for _ in range(between):
            rank.work(5)
            rank.kernel(500)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


@pytest.mark.parametrize(
    ("there", "back", "between", "moved"),
    [
        (SIZES, SIZES, 4, 2 * len(SIZES)),
        # A batch besides, of less than a tenth of the bytes.
        ((*SIZES, 0.5), SIZES, 4, 2 * len(SIZES) + 1),
        (SIZES, SIZES[:6], 4, 0),
        (SIZES[:5], SIZES[:5], 4, 0),
        # As many small ones: 64 kB in all.
        ([0.008] * 8, [0.008] * 8, 4, 0),
        # The host works on what came from the GPU, and sends it back.
        (SIZES, SIZES, 0, 0),
    ],
)
def test_state_is_what_comes_back_in_the_same_sizes(
    there: Sequence[float], back: Sequence[float], between: int, moved: int, tmp_path: Path
) -> None:
    with Database.open(record(tmp_path, there, back, between)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    assert len(find_moved_state(replay.graph)) == moved * replay.graph.steps


def test_state_that_stays_on_the_gpu_costs_neither_copies_nor_what_lies_between(
    tmp_path: Path,
) -> None:
    """One pause is left after each row: it may be of what follows."""
    with Database.open(record(tmp_path, SIZES, SIZES)) as database:
        replay = replay_reports(database)
        first = diagnose_reports(database).findings[0]
    assert not isinstance(replay, str), replay
    left_us = predict_us(replay.graph, PAGEABLE_COPIES.apply)
    assert KERNELS_US <= left_us <= KERNELS_US + 3 * PAUSE_US
    assert first.kind == "pageable_copy"
    assert first.evidence[-1] == (
        "16 copies a step, 36.00 MB, take the same tensors to the GPU and back: the cost is that "
        "of leaving them there"
    )


def record_batches(folder: Path, pause_us: float, *, is_last: bool) -> Path:
    """Steps of two copies of pageable memory, of 16 and 2 MB, with work of the host after the
    large one: between them, or before the kernels.
    """
    (rank,) = ranks_of(1)
    rank.events = True
    for _ in range(12):
        start = rank.now
        for size in (2, 16) if is_last else (16, 2):
            rank.copy(size, gb_per_s=10, pageable=True)
            rank.work(pause_us if size == 16 else 0)
        for _ in range(4):
            rank.work(5)
            rank.kernel(500)
        rank.range("step", start)
    return rank.recording.save(folder / "rank0.host0.sqlite")


@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(("pause_us", "is_kept"), [(3_000, True), (6_000, False)])
def test_what_a_batch_was_copied_from_is_not_freed_where_it_is_pinned(
    pause_us: float, is_kept: bool, is_last: bool, tmp_path: Path
) -> None:
    """16 MB are freed in 4 ms at most; what takes longer is other work."""
    with Database.open(record_batches(tmp_path, pause_us, is_last=is_last)) as database:
        replay = replay_reports(database)
    assert not isinstance(replay, str), replay
    left_us = predict_us(replay.graph, PAGEABLE_COPIES.apply)
    assert (left_us < 2_500) == is_kept
    assert is_kept or left_us > pause_us
