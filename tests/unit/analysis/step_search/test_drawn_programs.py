"""Steps of programs that are drawn from a seed."""

import pytest

from gpu_profile.analysis.step_search.search import find_repetition
from gpu_profile.analysis.step_search.tokens import find_by_tokens
from tests.seeds import choose_size, list_seeds
from tests.unit.analysis.step_search.drawn_programs import draw_program, is_right

RIGHT = 0.95
"""The least part of programs whose steps are found: 648 of 650 were."""


def finds_steps(seed: int) -> bool:
    program = draw_program(seed)
    launches = program.launches()
    steps = find_repetition(launches)
    steps = steps if program.trains else find_by_tokens(launches, steps) or steps
    return not isinstance(steps, str) and is_right(program, steps.first.tolist())


@pytest.mark.drawn
@pytest.mark.parametrize("seed", list_seeds([28], nightly=3))
def test_most_programs_have_their_steps(seed: int) -> None:
    count = choose_size(8, nightly=200)
    right = sum(finds_steps(1000 * seed + number) for number in range(count))
    assert right >= RIGHT * count
