"""The marks of pauses: stacks, garbage collections and compilations of a job's threads."""

from pathlib import Path

import pytest

from gpu_profile.analysis.host.frames import Frame
from gpu_profile.analysis.host.pauses import (
    GARBAGE,
    STACK,
    list_compilations,
    list_samples,
    load_pause_marks,
)
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import MS, Rank, ranks_of

COLLATE = 'stack | <module> "train.py" 0 | collate "data.py" 41'
FORWARD = 'stack | <module> "train.py" 7'


def make_rank() -> Rank:
    (rank,) = ranks_of(1)
    rank.kernel(10)
    return rank


def test_each_period_of_a_stack_is_a_sample(tmp_path: Path) -> None:
    """A thread that did not move has a second mark, which is made when it has moved."""
    rank, tid = make_rank(), ranks_of(1)[0].thread & 0xFFFFFF
    rank.work(10_000)
    start = rank.now
    rank.pause(COLLATE, start - 10 * MS, tid)
    rank.work(100_000)
    moved = rank.now
    rank.work(10_000)
    rank.pause(COLLATE, rank.now - 100 * MS, tid)
    rank.now += 1000
    rank.pause(FORWARD, moved, tid)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        samples = list_samples(database)
    assert {thread for _, thread, _ in samples} == {rank.thread}
    of_collate = sorted(at for at, _, stack in samples if stack[-1].function == "collate")
    assert len(of_collate) == 11
    assert (of_collate[0], of_collate[1], of_collate[-1]) == (start, start + 10 * MS, moved)
    names = [str(frame) for frame in samples[0][2]]
    assert names == ["<module> (train.py)", "collate (data.py:41)"]


def test_a_mark_that_was_made_late_tells_of_its_own_time(tmp_path: Path) -> None:
    """Several looks are told at once: the bits above 40 are for how many us the time is over."""
    rank, tid = make_rank(), ranks_of(1)[0].thread & 0xFFFFFF
    rank.work(10_000)
    seen = rank.now
    rank.work(30_000)
    late_us = (rank.now - seen) // 1000
    rank.pause(COLLATE, rank.now - 14 * MS - (late_us << 40), tid)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        marks = load_pause_marks(database)
    assert (marks.start.tolist(), marks.end.tolist()) == ([seen - 14 * MS], [seen])


def test_a_place_has_no_part_of_the_time_before_somebody_looked_there(tmp_path: Path) -> None:
    """The looks were 60 ms apart: of those the thread spent 50 where nobody looked."""
    rank, tid = make_rank(), ranks_of(1)[0].thread & 0xFFFFFF
    for words, ms in ((COLLATE, 10), (FORWARD, 60)):
        start = rank.now
        rank.work(1000 * ms)
        rank.pause(words, start, tid)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        times = [at for at, _, stack in list_samples(database) if len(stack) == 1]
    assert times == [rank.now] * 6


def test_collections_and_compilations_are_of_the_thread_that_marks_them(tmp_path: Path) -> None:
    rank = make_rank()
    for words in (GARBAGE, 'compilation | step "train.py" 30'):
        start = rank.now
        rank.work(5000)
        rank.pause(words, start)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        marks = load_pause_marks(database)
        (one,) = list_compilations(database)
    assert marks.pick(GARBAGE).by_thread[rank.thread].total == 5 * MS
    assert (one.thread, one.end - one.start) == (rank.thread, 5 * MS)
    assert one.function == Frame("step", "train.py", 30)
    assert len(marks.pick(STACK).start) == 0


@pytest.mark.parametrize(
    "text", ["stack", "stack | ", 'stack | f "a', 'stack | f "a" x', "stackful"]
)
def test_a_damaged_text_names_nothing(tmp_path: Path, text: str) -> None:
    rank = make_rank()
    rank.work(10_000)
    rank.pause(text, 0, 1)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        frames = [frame for _, _, stack in list_samples(database) for frame in stack]
    assert all(frame.line == 0 for frame in frames)


def test_a_number_that_cannot_be_is_cut(tmp_path: Path) -> None:
    rank = make_rank()
    rank.pause(COLLATE, -(1 << 39), 1)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        assert len(list_samples(database)) == 6000


def test_a_report_without_marks_has_no_pauses(tmp_path: Path) -> None:
    report = Training(ranks=1, steps=3).save(tmp_path)
    with Database.open(report) as database:
        assert len(load_pause_marks(database).start) == 0
        assert list_samples(database) == []
        assert list_compilations(database) == ()
