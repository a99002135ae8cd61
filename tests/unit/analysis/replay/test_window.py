"""Which steps of a recording are replayed."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.replay.rank.typical_steps import choose_steps, find_typical_steps
from gpu_profile.analysis.replay.rank.window import count_start
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.store.database import Database
from tests.reading import replay_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def test_a_long_recording_is_replayed_where_it_is_like_all_of_it(tmp_path: Path) -> None:
    """Of 120 steps the first 30 take 2.8 ms, as files are not in memory yet, the others 2.1 ms."""
    steps = count()

    def load(rank: Rank) -> None:
        rank.work(2_700 if next(steps) < 30 else 2_000)
        rank.synchronize()

    path = Training(ranks=1, steps=120, layers=5, data=load).save(tmp_path)
    with Database.open(path) as database:
        replay = replay_reports(database)
    assert isinstance(replay, Replay), replay
    assert replay.step_ms == pytest.approx((30 * 2.77 + 90 * 2.07) / 120, rel=0.04)


@pytest.mark.parametrize(
    ("first", "stop", "start"),
    [(1, 60, 19), (0, 120, 20), (20, 40, 0), (1, 39, 0), (25, 60, 0), (0, 0, 0)],
)
def test_ranks_leave_out_the_start_by_the_numbers_of_their_steps(
    first: int, stop: int, start: int
) -> None:
    """Each chooses by itself, and has to choose as the others."""
    assert count_start(np.arange(first, stop)) == start


def test_a_slow_step_at_the_edge_is_in_a_window_or_not_however_steps_are_told_apart() -> None:
    """The mean of twenty steps is that of the last fifteen. Here four of sixty are slow."""
    lengths = np.full(60, 10)
    lengths[[19, 25, 45, 55]] = 1000
    assert find_typical_steps(lengths, 20) == 1


def test_of_steps_that_hold_one_slow_step_each_those_are_chosen_that_are_most_like_all() -> None:
    """Each twentieth is slow, and the first one of these twice as slow as the others."""
    lengths = np.tile([10] * 19 + [300], 40)
    lengths[19] = 700
    assert find_typical_steps(lengths, 20) == 21


def test_where_no_steps_are_like_all_those_without_the_slowest_by_far_are_chosen() -> None:
    """Every eighth is slow, and the first of these has a start: a program that compiles in each."""
    usual = [98, 98, 99, 102, 106, 106, 106]
    every_eighth = [*usual, 1_100] * 4
    lengths = np.array([98, 98, 99, 104, 107, 108, 12_816, *every_eighth, *[98] * 8])
    assert find_typical_steps(lengths, 20) == 25


@pytest.mark.parametrize(("most", "chosen"), [(20, (0, 14)), (13, (1, 10))])
def test_more_steps_are_replayed_where_few_are_not_like_all(
    most: int, chosen: tuple[int, int]
) -> None:
    """Every tenth step is slow: it is one of the 7 that are measured of 10, or of the 10 of 14."""
    lengths = np.tile([10] * 9 + [110], 2)
    assert choose_steps(lengths, 20.0, 10, most) == chosen
