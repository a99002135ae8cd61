"""Samples of the threads that launch a rank's work: all, and those in which its GPU idled."""

from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.host.frames import Frame
from gpu_profile.analysis.host.samples import HostSamples, samples_in, samples_of
from gpu_profile.analysis.host.stacks import NO_STACKS, HostStacks
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank, Recording, add_cpu_sample

LOAD, LOG = ("load", "/home/me/data.py", 4), ("log", "/home/me/log.py", 5)
MAIN = ("&lt;module&gt;", "/home/me/train.py", 30)


def read(recording: Recording, folder: Path) -> list[HostSamples]:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return samples_of(activities_of(database, Scope()), database)


@pytest.mark.parametrize(
    ("time", "thread", "inside"),
    [
        *[(10, 1, True), (19, 1, True), (20, 1, False), (9, 1, False), (35, 2, True)],
        *[(35, 1, False), (10, 2, False), (99, 2, False)],
    ],
)
def test_a_sample_is_inside_a_gap_of_its_own_thread(time: int, thread: int, inside: bool) -> None:
    """The gaps are 10 to 20 of thread 1, and 30 to 40 of thread 2."""
    stack = ((Frame("f", "a.py"),),)
    one = HostStacks("Python", np.array([time]), np.array([thread]), np.zeros(1, int), stack)
    start, end, owner = np.array([10, 30]), np.array([20, 40]), np.array([1, 2])
    assert samples_in(one, start, end, owner).tolist() == [0] * inside
    assert samples_in(one, start[:0], end[:0], owner[:0]).tolist() == []
    assert samples_in(NO_STACKS, start, end, owner).tolist() == []


def sampled(thread: int = 0) -> Recording:
    """Each step the host loads data for 12 ms, on the launching thread or on another one."""

    def load(rank: Rank) -> None:
        start = rank.now
        rank.work(12_000)
        rank.lane = thread
        rank.sample(start, LOAD, MAIN, every_us=1000)
        rank.lane = 0

    return Training(ranks=1, steps=12, after=load).record()


def test_samples_are_counted_by_stack_and_in_the_gaps_of_the_gpu(tmp_path: Path) -> None:
    (samples,) = read(sampled(), tmp_path)
    assert (samples.rank, samples.kind) == (0, "Python")
    ((stack, count, idle),) = samples.stacks
    assert stack == ("<module> (train.py)", "load (data.py)")
    # Of 12 samples a step, 8 fall into its 40 kernels of 0.2 ms. After the last kernel there is
    # no gap, and the steady part ends.
    assert (count, idle) == (11 * 12 + 8, 11 * 4)


def test_threads_that_launch_nothing_are_left_out(tmp_path: Path) -> None:
    assert read(sampled(thread=50), tmp_path) == []


def test_the_most_frequent_stack_comes_first_and_kinds_stay_apart(tmp_path: Path) -> None:
    def work(rank: Rank) -> None:
        for frame, ms in ((LOG, 2), (LOAD, 6)):
            start = rank.now
            rank.work(1000 * ms)
            rank.sample(start, frame, every_us=1000)
        add_cpu_sample(rank, rank.now - 10, ("write", "/lib/libc.so.6"))

    by_kind = read(Training(ranks=2, after=work).record(), tmp_path)
    assert [(stacks.rank, stacks.kind) for stacks in by_kind] == [
        *((0, "Python"), (0, "CPU"), (1, "Python"), (1, "CPU")),
    ]
    for samples in (by_kind[0], by_kind[2]):
        assert [names for names, *_ in samples.stacks] == [("load (data.py)",), ("log (log.py)",)]
        assert samples.stacks[0][1] == 3 * samples.stacks[1][1]


def test_samples_of_the_start_up_are_left_out(tmp_path: Path) -> None:
    def read_data(rank: Rank) -> None:
        rank.call("cuInit", 10)
        start = rank.now
        rank.work(50_000)
        rank.sample(start, LOG, every_us=1000)
        rank.kernel(10, "first")

    training = Training(ranks=1, before=read_data)
    assert read(training.record(), tmp_path) == []


def test_a_recording_without_samples_has_none(tmp_path: Path) -> None:
    assert read(Training(ranks=1).record(), tmp_path) == []
