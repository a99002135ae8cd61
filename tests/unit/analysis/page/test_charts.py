"""Charts of the page: what they draw for values that do not fit together."""

import numpy as np

from gpu_profile.analysis.page.charts import _scale_of


def test_a_slow_first_step_does_not_flatten_the_others() -> None:
    series = {0: np.array([4400.0, 150.0, 35.0, 36.0, 34.0]), 1: np.array([40.0, 35.0, 34.0])}
    levels, high = _scale_of(series, dropped=2)
    assert 36 <= high < 45
    assert levels[0] <= 34


def test_all_steps_count_where_none_is_left_after_the_warm_up() -> None:
    _, high = _scale_of({0: np.array([10.0, 20.0])}, dropped=2)
    assert high >= 20
