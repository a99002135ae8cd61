"""Launches of programs of many shapes, drawn from a seed, with their true number of steps."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.unit.analysis.step_search.test_search import (
    EVALUATION,
    GRAPH,
    HEAD,
    INIT,
    LAYER,
    OPTIMIZER,
    TEST,
    TO_DEVICE,
    TO_HOST,
    TRIED,
    Program,
)

SIZES = 1000
"""The first kernel of those that batches of one size choose."""


@dataclass
class Drawn(Program):
    """A program of `steps` steps; `seldom`: in each how many-th of them it reads a value, which may
    be the end of a longer step. `trains`: it is no inference.
    """

    steps: int = 0
    seldom: int = 1
    trains: bool = False
    draw: random.Random = field(default_factory=random.Random)

    def between(self, least: int, most: int) -> int:
        return self.draw.randint(least, most)

    def some(self, first: int, least: int, most: int) -> list[int]:
        """Kernels of a layer."""
        return [first + self.draw.randrange(60) for _ in range(self.between(least, most))]

    def every(self, number: int, period: int) -> bool:
        return bool(period) and number % period == period - 1


def draw_program(seed: int) -> Drawn:
    draw = random.Random(seed)
    program = Drawn(steps=draw.choice((30, 48, 60, 100)), draw=draw)
    program.launch([INIT + draw.randrange(40) for _ in range(draw.randint(20, 200))])
    draw.choice(SHAPES)(program)
    return program


def serve(program: Drawn) -> None:
    """Batches of some sizes, each with kernels of its own."""
    sizes = [program.some(SIZES + 100 * size, 8, 20) for size in range(program.between(2, 5))]
    common, layers = program.some(LAYER, 4, 20), program.between(1, 8)
    for _ in range(program.steps):
        program.step(program.between(200, 3000))
        program.launch([TO_DEVICE] * program.between(1, 3))
        program.launch([LAYER, *program.draw.choice(sizes), *common] * layers)
        program.launch([HEAD, HEAD + 1, TO_HOST])


def simulate(program: Drawn) -> None:
    """A check in each n-th iteration."""
    program.seldom = program.draw.choice((4, 5, 10, 20))
    body, pause = program.some(LAYER, 5, 30), program.draw.choice((5, 20, 400))
    for number in range(program.steps):
        program.step(pause)
        program.launch(body)
        if program.every(number, program.seldom):
            program.launch([HEAD, TO_HOST])


def train(program: Drawn) -> None:
    """Evaluations, checkpoints and logs of some steps."""
    program.trains = True
    evaluates, saves, logs = (program.draw.choice((0, n, n + 3)) for n in (5, 7, 1))
    layers, accumulated = program.between(2, 12), program.draw.choice((1, 1, 2, 4))
    forward, backward = program.some(LAYER, 4, 15), program.some(LAYER + 100, 6, 25)
    for number in range(program.steps):
        program.step(program.between(300, 2000))
        for _ in range(accumulated):
            program.launch([TO_DEVICE, *[LAYER, *forward] * layers, HEAD, *backward * layers])
        program.launch([OPTIMIZER] * 3)
        if program.every(number, logs):
            program.launch([HEAD + 40, TO_HOST])
        if program.every(number, evaluates):
            program.launch([TO_DEVICE, *[EVALUATION, *forward] * layers, HEAD, TO_HOST] * 2)
        if program.every(number, saves):
            program.launch([TO_HOST] * program.between(5, 60))


def compile_in_between(program: Drawn) -> None:
    """Some graphs a step, and a function that is compiled in each n-th one."""
    program.trains = True
    graphs, own = program.draw.choice((1, 2, 5, 15)), program.draw.choice((0, 3, 20))
    compiles, fed = program.draw.choice((0, 5, 8, 14)), program.draw.choice((0, 1, 3))
    try_kernels(program)
    for number in range(program.steps):
        if program.every(number, compiles):
            program.step_pause(900_000)
            try_kernels(program)
        program.step(program.between(300, 900))
        program.launch([TO_DEVICE] * fed)
        for _ in range(graphs):
            program.launch([GRAPH, *range(HEAD, HEAD + own)])
            program.step_pause(program.between(6, 30))


def try_kernels(program: Drawn) -> None:
    """XLA's autotuner."""
    for _ in range(program.between(20, 120)):
        program.launch([TEST, TEST, TRIED + program.draw.randrange(40), TEST])


def ask_two_networks(program: Drawn) -> None:
    first, second = program.some(LAYER, 8, 20), program.some(LAYER + 100, 8, 20)
    layers, reads = (program.between(2, 8), program.between(2, 8)), program.draw.random() < 0.6
    for _ in range(program.steps):
        program.step(program.between(3000, 9000))
        program.launch([TO_DEVICE, *[LAYER, *first] * layers[0]])
        program.launch([HEAD, TO_HOST, TO_DEVICE] if reads else [])
        program.launch([*[LAYER + 1, *second] * layers[1], HEAD + 1, TO_HOST])


def change_lengths(program: Drawn) -> None:
    body, least = program.some(LAYER, 5, 20), program.between(1, 6)
    most, program.trains = least + program.between(1, 8), program.draw.random() < 0.5
    end = [OPTIMIZER] * 3 if program.trains else [TO_HOST]
    for _ in range(program.steps):
        program.step(program.between(200, 2000))
        program.launch([TO_DEVICE, *[LAYER, *body] * program.between(least, most)])
        program.launch([*range(HEAD, HEAD + 10), *end])


SHAPES = (serve, simulate, train, compile_in_between, ask_two_networks, change_lengths)


def is_right(program: Drawn, begins: Sequence[int]) -> bool:
    """Whether the steps that were found are the program's, or equal parts of them."""
    count, steps = len(begins), program.steps
    parts = max(1, round(count / steps))
    return abs(count - parts * steps) <= 2 * parts or abs(count - steps / program.seldom) <= 2
