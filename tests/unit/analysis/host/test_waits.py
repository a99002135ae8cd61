"""Waits in calls of the operating system, by thread and kind."""

from pathlib import Path

import pytest

from gpu_profile.analysis.host.waits import FILES, LEAST_NS, QUEUE, SLEEP, HostWaits, load_waits
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.synthetic import MS, US, Rank, Recording, ranks_of


def waits_of(recording: Recording, folder: Path) -> HostWaits:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return load_waits(database)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        *[("poll", QUEUE), ("ppoll", QUEUE), ("epoll_wait", QUEUE), ("select", QUEUE)],
        *[("sem_clockwait", QUEUE), ("sem_wait", QUEUE), ("pthread_cond_timedwait", QUEUE)],
        *[("futex", QUEUE), ("read", QUEUE), ("recvmsg", QUEUE), ("waitpid", QUEUE)],
        *[("nanosleep", SLEEP), ("clock_nanosleep", SLEEP), ("usleep", SLEEP)],
        *[("fread", FILES), ("pread64", FILES), ("open64", FILES), ("write", FILES)],
        *[("fsync", FILES), ("mmap64", FILES)],
        *[("pthread_create", None), ("ioctl", None), ("signal_poll", None)],
    ],
)
def test_the_kind_of_a_call(call: str, kind: str | None, tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    rank.wait_for(call, 500)
    waits = waits_of(rank.recording, tmp_path).by_thread
    assert {what for kinds in waits.values() for what in kinds} == ({kind} if kind else set())


def test_short_calls_are_no_waits(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    rank.wait_for("poll", LEAST_NS / US - 1)
    rank.wait_for("poll", LEAST_NS / US)
    (pieces,) = waits_of(rank.recording, tmp_path).by_thread[rank.thread].values()
    assert pieces.total == LEAST_NS


def test_each_thread_has_its_own_waits(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    worker = Rank(rank.recording, 0, lane=7)
    rank.wait_for("poll", 1000)
    worker.wait_for("fread", 2000)
    worker.wait_for("nanosleep", 3000)
    waits = waits_of(rank.recording, tmp_path).by_thread
    totals = {
        thread: {kind: pieces.total for kind, pieces in kinds.items()}
        for thread, kinds in waits.items()
    }
    assert totals == {rank.thread: {QUEUE: MS}, worker.thread: {FILES: 2 * MS, SLEEP: 3 * MS}}


def test_calls_inside_calls_count_once(tmp_path: Path) -> None:
    """glibc's fread calls read: both are in the trace."""
    (rank,) = ranks_of(1)
    for start, end in ((0, 4 * MS), (MS, 2 * MS), (3 * MS, 5 * MS)):
        rank.recording.add("OSRT_API", start, end, rank.thread, rank.recording.name("fread"))
    (pieces,) = waits_of(rank.recording, tmp_path).by_thread[rank.thread].values()
    assert (pieces.start.tolist(), pieces.end.tolist()) == ([0], [5 * MS])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pt_data_worker", True), ("QueueFeederThre", True), ("python3", False)],
)
def test_threads_of_a_data_loader_are_known_by_name(
    name: str, expected: bool, tmp_path: Path
) -> None:
    (rank,) = ranks_of(1)
    rank.recording.add("ThreadNames", rank.recording.name(name), 0, rank.thread)
    rank.recording.add("ThreadNames", None, 0, rank.thread + 1)
    assert waits_of(rank.recording, tmp_path).has_loader == expected


def test_without_such_a_trace_there_is_nothing(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    rank.kernel(10)
    waits = waits_of(rank.recording, tmp_path)
    assert (dict(waits.by_thread), waits.has_loader) == ({}, False)
