"""Steps of changing lengths: each has an own number of layers, or its own kernels."""

import random

import pytest

from gpu_profile.analysis.step_search.search import find_repetition
from gpu_profile.analysis.step_search.tokens import find_by_tokens
from tests.unit.analysis.step_search.test_search import (
    HEAD,
    INIT,
    LAYER,
    OPTIMIZER,
    TO_DEVICE,
    TO_HOST,
    TRIED,
    Program,
)

STEPS = 48


def take_a_batch(program: Program, layers: int) -> None:
    program.step()
    program.launch([TO_DEVICE])
    for _ in range(layers):
        program.launch(range(LAYER, LAYER + 15))
    program.launch(range(HEAD, HEAD + 10))


@pytest.mark.parametrize("seed", range(3))
def test_steps_of_changing_lengths_end_with_the_optimizer(seed: int) -> None:
    draw, program = random.Random(seed), Program()
    program.launch(range(INIT, INIT + 90))
    for _ in range(STEPS):
        take_a_batch(program, draw.randint(2, 9))
        program.launch([OPTIMIZER] * 3)
    steps = find_repetition(program.launches())
    assert not isinstance(steps, str)
    assert steps.first.tolist() == program.begins


@pytest.mark.parametrize("seed", range(3))
def test_answers_of_changing_lengths_end_with_their_tokens(seed: int) -> None:
    """Batches of four sizes choose kernels of their own."""
    draw, program = random.Random(seed), Program()
    program.launch(range(INIT, INIT + 90))
    for _ in range(STEPS):
        program.step()
        size = draw.randrange(4)
        kernels = range(TRIED + 20 * size, TRIED + 20 * size + 8 + 3 * size)
        program.launch([TO_DEVICE])
        for _ in range(5):
            program.launch([LAYER, *kernels, *range(LAYER + 1, LAYER + 9)])
        program.launch([HEAD, TO_HOST])
    launches = program.launches()
    repetition = find_repetition(launches)
    steps = find_by_tokens(launches, repetition) or repetition
    assert not isinstance(steps, str)
    assert abs(len(steps.first) - STEPS) <= 1


def test_reads_in_some_steps_do_not_tell_steps() -> None:
    """A simulation reads its state when something has happened."""
    draw, program = random.Random(0), Program()
    for _ in range(100):
        program.step()
        program.launch(range(LAYER, LAYER + 30))
        if draw.random() < 0.3:
            program.launch([HEAD, TO_HOST])
    launches = program.launches()
    repetition = find_repetition(launches)
    assert not isinstance(repetition, str)
    assert find_by_tokens(launches, repetition) is None
    assert abs(len(repetition.first) - 100) <= 1
