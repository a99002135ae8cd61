"""Charts of the page: what they draw for values that do not fit together."""

from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.page.charts import _Place, _scale_of
from gpu_profile.analysis.page.sections.kernel_classes import CLASSES_BY_RANK, draw_kernel_classes
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def test_a_slow_first_step_does_not_flatten_the_others() -> None:
    series = [np.array([4400.0, 150.0, 35.0, 36.0, 34.0]), np.array([40.0, 35.0, 34.0])]
    levels, high = _scale_of(series, dropped=2)
    assert 36 <= high < 45
    assert levels[0] <= 34


def test_all_steps_count_where_none_is_left_after_the_warm_up() -> None:
    _, high = _scale_of([np.array([10.0, 20.0])], dropped=2)
    assert high >= 20


def test_a_line_stays_on_the_chart_in_the_warm_up() -> None:
    """A rank that begins late has a short first step."""
    assert _Place(3, 80.0, 110.0).points(np.array([4400.0, 5.0, 95.0])) == (
        "0.0,0.0 500.0,300.0 1000.0,150.0"
    )


def initialise(rank: Rank) -> None:
    rank.call("cuDevicePrimaryCtxRetain", 500_000)
    rank.kernel(7_000_000, "sort_weights")
    rank.synchronize()


@pytest.mark.parametrize("starts", [True, False])
def test_kinds_of_work_leave_start_up_out(starts: bool, tmp_path: Path) -> None:
    """12 steps of 41 kernels and one all-reduce, of which the first is start-up too."""
    training = Training(ranks=2, before=initialise) if starts else Training(ranks=2)
    with Database.open(training.save(tmp_path)) as database:
        table = CLASSES_BY_RANK.table(database)
    steps = 11 if starts else 12
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows[0, "GEMM"] == (steps * 40, steps * 40 * 200_000, (12 - steps) * 40 * 200_000)
    assert rows[0, "communication"][0] == steps
    html = draw_kernel_classes(table)
    assert ("GPU time by kind of work, without start-up" in html) == starts
    assert ("on all ranks, are left out" in html) == starts
    assert ("7,000,000,000" in html) == starts
