"""Start-up: its length, its parts, and that no figure of the steady state counts it."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.load import load_activities
from gpu_profile.analysis.activity.start_up import find_start_up, steady_window
from gpu_profile.analysis.activity.states import rank_states
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

S = 1_000_000_000


def start(rank: Rank) -> None:
    rank.work(3_000_000)
    rank.call("cuDevicePrimaryCtxRetain", 500_000)
    rank.call("cuLibraryLoadData", 2_000_000)
    rank.work(1_000_000)


def test_parts_and_length_and_that_figures_leave_it_out(tmp_path: Path) -> None:
    path = Training(before=start).save(tmp_path)
    with Database.open(path) as database:
        for activity in load_activities(database, Scope()):
            start_up = find_start_up(activity)
            assert start_up is not None
            assert start_up.length == pytest.approx(6.5 * S, rel=0.01)
            assert start_up.parts["loading CUDA libraries"] == 2 * S
            assert start_up.parts["contexts"] == S // 2
            assert start_up.parts["before the first CUDA call (imports)"] == pytest.approx(
                3 * S, rel=0.01
            )
            assert start_up.first_steps == 1
            assert steady_window(activity)[0] >= start_up.end
            assert rank_states(activity).span < 0.2 * S


def test_a_recording_that_began_later_has_none(tmp_path: Path) -> None:
    with Database.open(Training().save(tmp_path)) as database:
        assert all(
            find_start_up(activity) is None for activity in load_activities(database, Scope())
        )
