"""The loop inside of a step is told from steps that log every n-th time."""

import tracemalloc
from collections.abc import Callable

import pytest

from tests.unit.analysis.step_search.test_search import (
    GRAPH,
    HEAD,
    LAYER,
    TO_DEVICE,
    TO_HOST,
    TRIED,
    Program,
    recorded,
    steps_of,
)


def reads_in_each_layer(program: Program, _number: int) -> None:
    """Each of 12 layers checks a value; the head takes little time."""
    program.step()
    for _ in range(12):
        program.launch([HEAD + 20, TO_HOST, *range(LAYER, LAYER + 20)])
    program.launch(range(HEAD, HEAD + 4))


def mixes_in_small_layers(program: Program, _number: int) -> None:
    """Four denoising passes, and one launch that joins their results."""
    program.step()
    for _ in range(4):
        program.launch(range(LAYER, LAYER + 99))
    program.launch([HEAD])


def gives_a_word(program: Program, _number: int) -> None:
    """Eight layers that copy nothing; the word is read, and then looked up."""
    program.step()
    program.launch([HEAD])
    for _ in range(8):
        program.launch(range(LAYER, LAYER + 30))
    program.launch([HEAD + 1, TO_HOST])


def takes_a_field_in(program: Program, _number: int) -> None:
    """100 sweeps, each of which reads a residual, after the data of the next field."""
    program.step()
    program.launch([TO_DEVICE, HEAD])
    for _ in range(100):
        program.launch([LAYER + 1, LAYER + 2, TO_HOST])


def draws_an_image(program: Program, _number: int) -> None:
    """Ten passes of five layers each, then a decoder: a loop in a loop."""
    program.step()
    for _ in range(10):
        for _ in range(5):
            program.launch(range(LAYER, LAYER + 30))
        program.launch([HEAD, HEAD + 1])
    program.launch(range(HEAD + 10, HEAD + 20))


def asks_two_models(program: Program, _number: int) -> None:
    """One of them twice; each answer is read."""
    program.step()
    program.launch([*range(LAYER, LAYER + 60), TO_HOST] * 2)
    program.launch([*range(TRIED, TRIED + 70), TO_HOST])


def tracks_each_ship(program: Program, _number: int) -> None:
    """24 scans, then 60 small filters and a read. One kernel of a filter is launched after the
    scans, too: two stretches of a step are unlike the others, with most of the GPU's time.
    """
    program.step()
    program.launch([*[*range(HEAD, HEAD + 6)] * 24, TRIED + 1, *range(HEAD + 10, HEAD + 15)])
    for _ in range(60):
        program.launch([*[TRIED] * 9, TRIED + 1, *[TRIED] * 9, TRIED + 2, *[TRIED] * 8])
    program.launch([TO_HOST])


def asks_two_networks_by_turns(program: Program, _number: int) -> None:
    """The host works longer before the first one, and before each step."""
    program.step(14_000)
    for head in (HEAD, HEAD + 1):
        program.launch([TO_DEVICE, *[*range(LAYER, LAYER + 9)] * 6, head, TO_HOST])
        program.step_pause(5_000)


def launches_graphs_in_a_row(program: Program, _number: int) -> None:
    program.step(300)
    program.launch([*[GRAPH] * 7, HEAD, *[GRAPH] * 6, HEAD])


@pytest.mark.parametrize(
    "act",
    [
        asks_two_networks_by_turns,
        launches_graphs_in_a_row,
        asks_two_models,
        reads_in_each_layer,
        mixes_in_small_layers,
        gives_a_word,
        takes_a_field_in,
        draws_an_image,
        tracks_each_ship,
    ],
)
def test_a_loop_inside_of_a_step_is_a_part(act: Callable[[Program, int], None]) -> None:
    program = recorded(act)
    assert steps_of(program).first.tolist() == program.begins


def writes_every_tenth_state(program: Program, number: int) -> None:
    """A simulation."""
    program.step()
    program.launch([*range(LAYER + 1, LAYER + 30), *range(HEAD, HEAD + 3)])
    if number % 10 == 9:
        program.launch([HEAD + 9, TO_HOST])


def reads_twice_every_tenth_time(program: Program, number: int) -> None:
    program.step()
    program.launch([*range(LAYER, LAYER + 30), TO_HOST])
    if number % 10 == 9:
        program.launch([HEAD + 9, TO_HOST])


def takes_a_batch_in(program: Program, number: int) -> None:
    """Averages its weights every fifth time."""
    program.step()
    program.launch([TO_DEVICE, *range(LAYER, LAYER + 30)])
    if number % 5 == 4:
        program.launch([HEAD + 9])


def replays_a_graph(program: Program, number: int) -> None:
    program.step()
    program.launch([GRAPH, *range(HEAD, HEAD + 8)])
    if number % 5 == 4:
        program.launch([HEAD + 9])


def validates_a_graph(program: Program, number: int) -> None:
    """Python launches each graph."""
    program.step(400)
    program.launch([GRAPH])
    if number % 8 == 7:
        program.step_pause(170_000)
        program.launch([HEAD + 9])


def reads_and_pads_by_turns(program: Program, number: int) -> None:
    program.step()
    program.launch([*range(LAYER, LAYER + 30), *[HEAD + 9] * (number % 2), TO_HOST])


@pytest.mark.parametrize(
    "act",
    [
        writes_every_tenth_state,
        reads_twice_every_tenth_time,
        takes_a_batch_in,
        replays_a_graph,
        validates_a_graph,
        reads_and_pads_by_turns,
    ],
)
def test_what_every_nth_step_adds_joins_no_steps(act: Callable[[Program, int], None]) -> None:
    program = recorded(act, 160)
    assert abs(len(steps_of(program).first) - 160) <= 1


@pytest.mark.further
def test_many_short_steps_take_little_memory() -> None:
    """A table of all distances between 40,000 steps would take 13 GB."""
    program = Program()
    for _ in range(40_000):
        program.step()
        program.launch([LAYER + 1, LAYER + 2, TO_HOST])
    tracemalloc.start()
    assert len(steps_of(program).first) >= 40_000 - 1
    assert tracemalloc.get_traced_memory()[1] < 300e6
    tracemalloc.stop()


def test_few_rounds_of_a_loop_do_not_tell_a_step() -> None:
    """Seven steps may as well be 84 that launch something every twelfth time."""
    assert len(steps_of(recorded(reads_in_each_layer, 7)).first) > 7
