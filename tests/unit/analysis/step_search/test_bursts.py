"""Steps of a loop in which, or beside which, another repetition comes in bursts."""

import numpy as np
import pytest

from tests.further import keep_first
from tests.unit.analysis.step_search.test_search import INIT, LAYER, TO_HOST, Program, steps_of

FLUSH, GATE = INIT, LAYER + 5


def tune(program: Program, times: int) -> None:
    """As Triton's autotuner does for two configurations: estimate, warm up, measure."""
    for _ in range(2):
        program.launch([GATE, *[FLUSH, GATE] * 5, *[GATE] * (times // 3), *[FLUSH, GATE] * times])


@pytest.mark.parametrize("period", keep_first(1, [8, 5]))
def test_an_autotuner_in_each_eighth_step_is_not_the_steps(period: int) -> None:
    program = Program()
    for number in range(48):
        program.step()
        program.launch(range(LAYER, LAYER + 3))
        if number % period == 0:
            tune(program, 240 + number)
        program.launch(range(LAYER + 3, LAYER + 36))
    steps = steps_of(program)
    assert abs(len(steps.first) - 48) <= 1
    assert np.isin(steps.first, program.begins).mean() >= 0.9


def test_iterations_of_a_solver_stay_the_steps() -> None:
    """They come in each pass, in its own number of times: each ends with a value that is read."""
    program, iterations = Program(), 0
    for number in range(12):
        program.launch(range(LAYER, LAYER + 20))
        for _ in range(150 + 37 * number % 60):
            iterations += 1
            program.launch([INIT, INIT + 1, TO_HOST])
    assert len(steps_of(program).first) >= 0.9 * iterations
