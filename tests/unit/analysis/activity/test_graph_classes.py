"""CUDA graphs that were traced as a whole, of which the time tells what they are."""

import random
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.load.graph_classes import class_graphs
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.activity.steps.steps import Steps
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.unit.analysis.synthetic import Rank, ranks_of

STEPS = 48


def steps_of(rank: Rank, path: Path) -> Steps:
    rank.recording.save(path)
    with Database.open(path) as database:
        return find_steps(activities_of(database, Scope())[0])


def compile_function(rank: Rank) -> None:
    """XLA tries kernels, and checks what each has written."""
    rank.work(300_000)
    for number in range(200):
        rank.kernel(30, "stream_executor::gpu::RedzoneAllocatorKernelImpl(unsigned char *)")
        rank.kernel(80, f"gemm_fusion_dot_{number // 9}")


def launch(rank: Rank, length: float, executable: int, pause: float) -> None:
    rank.work(pause)
    rank.graph(length, executable)


def test_graphs_that_take_equally_long_are_of_one_class() -> None:
    executables: IntArray = np.array([7, 9, 7, 8, 9, 7])
    lengths: IntArray = np.array([900, 3000, 5000, 1000, 3100, 950])
    assert class_graphs(executables, lengths).tolist() == [0, 1, 0, 0, 1, 0]


def test_a_validation_in_each_eighth_step_is_no_step(tmp_path: Path) -> None:
    """What is compiled for it tries kernels, and the graph of the step is instantiated again."""
    (rank,) = ranks_of(1)
    rank.graph(7, executable=99)
    for number in range(STEPS):
        launch(rank, 9800, executable=number // 8, pause=500)
        if number % 8 == 7:
            compile_function(rank)
            launch(rank, 3400, executable=100 + number, pause=1700)
    assert len(steps_of(rank, tmp_path / "validation.sqlite")) == STEPS


@pytest.mark.parametrize("period", [14, 7])
def test_what_is_compiled_again_and_again_is_of_the_steps(period: int, tmp_path: Path) -> None:
    """Each step launches 15 graphs in a row; a batch of another size is compiled anew."""
    (rank,) = ranks_of(1)
    for number in range(STEPS):
        rank.work(300)
        is_new = number % period == period - 1
        if is_new:
            compile_function(rank)
        own = 1000 * number if is_new else 0
        for place in range(15):
            last = place in (7, 14)
            launch(rank, 40 if last else 900, own + (1 if last else 2 + place // 8), pause=20)
    steps = steps_of(rank, tmp_path / "sizes.sqlite")
    assert len(steps) == STEPS
    assert steps.source.startswith("repetition of 15 launches")


def test_graphs_of_each_size_of_a_batch_are_steps(tmp_path: Path) -> None:
    """A server launches one of five graphs, in no order."""
    (rank,) = ranks_of(1)
    draw = random.Random(0)
    for _ in range(60):
        size = draw.randrange(5)
        rank.copy(0.1)
        launch(rank, 1000 * 2**size, executable=size, pause=300)
        rank.item()
    assert abs(len(steps_of(rank, tmp_path / "sizes.sqlite")) - 60) <= 1
