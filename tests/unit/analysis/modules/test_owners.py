"""Each kernel has one owner: the module, optimizer or collective that truly launched it."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import COMMUNICATION, COMPUTE
from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.activity.steps.common_steps import first_steady
from gpu_profile.analysis.activity.steps.find_steps import find_steps
from gpu_profile.analysis.modules.marks import (
    FORWARD,
    Mark,
    Module,
    fold_module,
    fold_numbers,
    is_inside,
    parse_mark,
)
from gpu_profile.analysis.modules.module_times import measure_modules
from gpu_profile.analysis.modules.owners import UNATTRIBUTED, find_op_owners
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import OURS
from tests.further import keep_first
from tests.generator.marked import Key, MarkedRun
from tests.seeds import list_seeds
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import ranks_of


def read_owners(path: Path) -> Counter[Key]:
    """ns of kernels by module and work, over all ranks and the whole recording."""
    times: Counter[Key] = Counter()
    with Database.open(path) as database:
        for activity in activities_of(database, Scope()):
            owners = find_op_owners(activity)
            assert owners is not None
            sums = np.bincount(owners.of_op, activity.ops.duration, len(owners.owners))
            for owner, ns in zip(owners.owners, sums.tolist(), strict=True):
                name = "" if owner.work == UNATTRIBUTED else owner.module.name
                times[name, owner.work] += int(ns)
    return times


@pytest.fixture
def marked_run(seed: int, tmp_path: Path) -> tuple[MarkedRun, Path]:
    run = MarkedRun(seed)
    return run, run.save(tmp_path)


@pytest.mark.drawn
@pytest.mark.parametrize("seed", keep_first(10, list_seeds(range(20), nightly=400)))
def test_every_kernel_counts_for_what_launched_it(marked_run: tuple[MarkedRun, Path]) -> None:
    run, path = marked_run
    assert +read_owners(path) == +run.truth


def sum_steady_kernels(database: Database) -> int:
    """ns of the kernels of all ranks that began after the first step, which is warm-up.

    A collective that ends after the last step waits for a rank whose recording goes on, and counts
    for no module (find_steady_kernels).
    """
    total = 0
    for activity in activities_of(database, Scope()):
        steps, ops = find_steps(activity), activity.ops
        first = steps.start[first_steady(steps.end - steps.start)]
        waits_on = (ops.kind == COMMUNICATION) & (ops.end[:] > steps.end[-1])
        kernels = ((ops.kind == COMPUTE) | (ops.kind == COMMUNICATION)) & ~waits_on
        total += int(ops.duration[kernels & (ops.start >= first)].sum())
    return total


@pytest.mark.drawn
@pytest.mark.parametrize("seed", keep_first(4, list_seeds((*range(10), 183), nightly=200)))
def test_the_rows_add_up_to_the_kernels(marked_run: tuple[MarkedRun, Path]) -> None:
    with Database.open(marked_run[1]) as database:
        total = sum_steady_kernels(database)
        for by, depth in itertools.product(("module", "class", "line"), (0, 1, 2)):
            table = OURS["module_sum"].table(database, scope=Scope(by=by, depth=depth))
            assert sum(int(cell or 0) for cell in table.column("GPU Time")) == total, (by, depth)


def test_a_report_without_marks_has_no_modules(tmp_path: Path) -> None:
    with Database.open(Training(ranks=2).save(tmp_path)) as database:
        assert OURS["module_sum"].table(database).rows == ()
        assert [measure_modules(activity) for activity in activities_of(database, Scope())] == [
            None,
            None,
        ]


def test_marks_of_steps_alone_make_no_table_of_modules(tmp_path: Path) -> None:
    """Every training has them by default: the table would hold phases only."""
    (rank,) = ranks_of(1)
    start = rank.now
    rank.kernel(900)
    rank.mark("forward", start)
    rank.mark("optimizer AdamW", rank.now)
    rank.mark("step", start, 0)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        table = OURS["module_sum"].table(database)
    assert table.rows == ()
    assert "--annotate modules" in table.hint


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("step", Mark("step")),
        ("backward", Mark("backward")),
        ("optimizer AdamW", Mark("optimizer", Module("(optimizer AdamW)", "AdamW"))),
        ("forward h.3|Block|m.py:1", Mark(FORWARD, Module("h.3", "Block", "m.py:1"))),
        ("forward h.3|Block", Mark(FORWARD, Module("h.3", "Block"))),
        ("forwarded h.3|Block|m.py:1", Mark("")),
        ("", Mark("")),
    ],
)
def test_the_text_of_a_mark(text: str, mark: Mark) -> None:
    assert parse_mark(text) == mark


@pytest.mark.parametrize(
    ("name", "folded"),
    [("h.3.attn", "h.*.attn"), ("12", "*"), ("conv1.2", "conv1.*"), ("h.3.4", "h.*.*")],
)
def test_layers_fold_into_one_name(name: str, folded: str) -> None:
    assert fold_numbers(name) == folded


def test_a_name_of_numbers_alone_has_its_class() -> None:
    """In an nn.Sequential all names are numbers."""
    assert fold_module(Module("12", "Linear")) == "* (Linear)"
    assert fold_module(Module("h.12.fc", "Linear")) == "h.*.fc"


@pytest.mark.parametrize("name", ["optimizer AdamW", "(optimizer AdamW)"])
def test_an_optimizer_is_named_as_module_sum_has_it_or_plainly(name: str) -> None:
    assert is_inside(Module("(optimizer AdamW)"), name)
    assert not is_inside(Module("optimizer.0"), name)
