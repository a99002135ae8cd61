"""Blocking calls named by the Python code that makes them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.host.blocking_names import NEAR_CALLS, NEAR_NS, name_blocking_calls
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.synthetic import US, Rank, ranks_of

PAGEABLE, PINNED, TO_DEVICE, TO_HOST = 0, 1, 1, 2
PLAIN = "cudaStreamSynchronize"


def copy(rank: Rank, size: int, kind: int, memory: int = PINNED) -> None:
    """A copy whose call returns at once, from or to pinned or pageable memory of the host."""
    start = max(rank.free, rank.now) + 4 * US
    rank.free = start + 2 * US
    call = rank.call("cudaMemcpyAsync_v3020", 5)
    host = (memory, 2) if kind == TO_DEVICE else (2, memory)
    place = (rank.rank, 7, call, rank.process, size, kind, *host)
    rank.recording.add("CUPTI_ACTIVITY_KIND_MEMCPY", start, rank.free, *place)


def names_of(act: Callable[[Rank], None], folder: Path) -> list[str]:
    """The names of the blocking calls of a rank that launches a kernel, acts, and launches one."""
    (rank,) = ranks_of(1)
    rank.kernel(100)
    act(rank)
    rank.kernel(100)
    with Database.open(rank.recording.save(folder / "run.sqlite")) as database:
        (activity,) = activities_of(database, Scope())
        codes, names = name_blocking_calls(activity)
        assert set(codes.tolist()) == set(range(len(names)))
        return [names[code] for code in codes.tolist()]


@pytest.mark.parametrize(
    ("size", "kind", "after"),
    [
        (16, TO_HOST, " after one value was copied to the host, as .item() makes it"),
        (17, TO_HOST, " after a copy to the host, as .cpu() makes it"),
        (17, TO_DEVICE, " after a copy to the device, as .to(device) makes it"),
        (1, 8, ""),
    ],
    ids=["item", "cpu", "to", "on the device"],
)
def test_a_wait_right_after_a_copy(size: int, kind: int, after: str, tmp_path: Path) -> None:
    def act(rank: Rank) -> None:
        copy(rank, size, kind)
        rank.synchronize()

    assert names_of(act, tmp_path) == [PLAIN + after]


@pytest.mark.parametrize(
    ("size", "kind", "of_itself"),
    [
        (8, TO_HOST, " of one value to the host, as .item() makes it"),
        (1 << 20, TO_HOST, " to the host, as .cpu() makes it"),
        (1 << 20, TO_DEVICE, " from pageable memory, as .to(device) makes it"),
    ],
    ids=["item", "cpu", "to"],
)
def test_a_copy_that_blocks_by_itself(size: int, kind: int, of_itself: str, tmp_path: Path) -> None:
    assert names_of(lambda rank: copy(rank, size, kind, PAGEABLE), tmp_path) == [
        f"cudaMemcpyAsync{of_itself}"
    ]


def test_a_wait_for_no_copy_has_the_name_of_its_call(tmp_path: Path) -> None:
    assert names_of(Rank.synchronize, tmp_path) == [PLAIN]


@pytest.mark.parametrize(("between", "is_after"), [(NEAR_CALLS - 1, True), (NEAR_CALLS, False)])
def test_some_calls_may_stand_between(between: int, is_after: bool, tmp_path: Path) -> None:
    def act(rank: Rank) -> None:
        copy(rank, 8, TO_HOST)
        for _ in range(between):
            rank.call("cudaEventQuery_v3020", 1)
        rank.synchronize()

    (name,) = names_of(act, tmp_path)
    assert (".item()" in name) == is_after


@pytest.mark.parametrize(("pause_us", "is_after"), [(900, True), (1100, False)])
def test_a_wait_long_after_a_copy_is_of_its_own(
    pause_us: int, is_after: bool, tmp_path: Path
) -> None:
    assert NEAR_NS == 1000 * US

    def act(rank: Rank) -> None:
        copy(rank, 8, TO_HOST)
        rank.work(pause_us)
        rank.synchronize()

    (name,) = names_of(act, tmp_path)
    assert (".item()" in name) == is_after


@pytest.mark.parametrize("lane", [-50, 50], ids=["lower number", "higher number"])
def test_a_copy_of_another_thread_is_not_the_reason(lane: int, tmp_path: Path) -> None:
    def act(rank: Rank) -> None:
        rank.lane = lane
        copy(rank, 8, TO_HOST)
        rank.lane = 0
        rank.synchronize()

    assert names_of(act, tmp_path) == [PLAIN]


def test_equal_names_are_listed_once(tmp_path: Path) -> None:
    def act(rank: Rank) -> None:
        for _ in range(3):
            rank.item()
            rank.work(5000)
            rank.synchronize()

    item = f"{PLAIN} after one value was copied to the host, as .item() makes it"
    assert names_of(act, tmp_path) == [item, PLAIN] * 3
