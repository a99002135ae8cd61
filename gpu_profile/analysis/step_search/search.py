"""Find the steps of one rank in its launches.

The limits were set on the recorded programs of tests/data/unprepared and on synthetic runs, whose
true steps are known. A change of one is judged by `python -m tests.generator --runs 500`, which
prints the runs with wrong steps (0 of 150 from seed 51000000).
"""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.anchors import (
    FEWEST,
    SAMPLE,
    find_anchors,
    sample_start,
)
from gpu_profile.analysis.step_search.boundaries import (
    Cycles,
    Repetition,
    find_cycles,
    steps_by_optimizer,
    steps_by_pause,
)
from gpu_profile.analysis.step_search.bursts import find_program, find_steps_between
from gpu_profile.analysis.step_search.choice import (
    HALF,
    NEARLY_ALL,
    choose_anchor,
    spread_over,
)
from gpu_profile.analysis.step_search.graph_replays import (
    MANY,
    find_replays,
    include_first_replays,
)
from gpu_profile.analysis.step_search.launches import Launches
from gpu_profile.analysis.step_search.loop_bodies import join_parts
from gpu_profile.analysis.step_search.uneven import find_uneven_steps

# An autotuner can launch more than all steps do: then only the last launches repeat.
# The batches of an evaluation after a training in no order do less than a quarter of the work.
LATE_SAMPLES, LEAST_WORK = (0.7, 0.85, 0.925), 1 / 4
# As of a gap whose cause is the host's stall (docs/steps.md): a longer pause than 20 launches.
LONG_PAUSE = 20


def find_repetition(launches: Launches) -> Repetition | str:
    """The steps, or a text that says why there are none."""
    rows = find_program(launches)
    program = launches.pick(rows)
    steps = _find_whole_steps(program) if len(rows) < len(launches) else ""
    # A compiler copies constants: they repeat where the program has a step or two.
    if isinstance(steps, str) or _measure_work(program, steps) < LEAST_WORK:
        return _find_whole_steps(launches)
    return steps.place_at(rows)


def _measure_work(launches: Launches, steps: Repetition) -> float:
    """The part of the GPU's work that the steps hold."""
    work = int(launches.gpu[int(steps.first[0]) : steps.end].sum())
    return work / max(1, int(launches.gpu.sum()))


def _find_whole_steps(launches: Launches) -> Repetition | str:
    """The steps of any length, with all their parts."""
    steps = _find_in(launches)
    if launches.optimizer.any():
        steps = find_uneven_steps(launches, steps) or steps
    if isinstance(steps, str) or launches.optimizer[steps.first[0] : steps.end].any():
        return steps
    return join_parts(launches, steps)


def _find_in(launches: Launches) -> Repetition | str:
    if len(launches) < FEWEST:
        return f"{len(launches)} operations were launched"
    usual = _search_late(launches)
    if isinstance(usual, str):
        return (
            _replays(launches, np.arange(len(launches)))
            or _replays(launches, find_replays(launches))
            or _find_rarer_steps(launches)
            or usual
        )
    return (
        _replays(launches, np.arange(usual.end, len(launches)))
        or find_steps_between(launches, usual, _search_late)
        or usual
    )


def _search_late(launches: Launches) -> Repetition | str:
    return _search(launches, sample_start(launches))


def _search(launches: Launches, begin: int) -> Repetition | str:
    """The steps by the anchors in the launches from row `begin` on, or why there are none."""
    anchors = find_anchors(launches, begin)
    if not anchors:
        return f"no {FEWEST} stretches of the {len(launches)} launches are alike"
    chosen = choose_anchor(launches, anchors, begin)
    if chosen is None:
        return "stretches of launches hold the same kernels, but in no order, or no whole step"
    cycles = find_cycles(launches, chosen)
    by_optimizer = spread_over(launches.optimizer, begin) is not None
    if not by_optimizer and (missing := _missing(launches, cycles)):
        return f"the launches repeat {len(cycles.is_alike)} times, but {missing} came between"
    steps = (steps_by_optimizer if by_optimizer else steps_by_pause)(launches, cycles)
    if len(steps.first) < FEWEST:
        return f"the launches repeat {len(steps.first)} times, and fewer than {FEWEST} tell nothing"
    return steps


def _replays(launches: Launches, rows: IntArray) -> Repetition | None:
    """The steps among these rows that replay CUDA graphs, if they are half of the GPU's work, or
    these launches of a program without an optimizer's.

    A graph can hold the optimizer, whose kernels are then launched in the warm-up only (and in the
    capture, where they do not run). So what repeats before is the warm-up. XLA's autotuner launches
    each product some hundred times, which can be more work than all steps are.
    """
    optimizer = np.flatnonzero(launches.optimizer)
    rows = rows[rows > optimizer[-1]] if len(optimizer) else rows
    later = launches.pick(rows)
    is_most = 2 * int(later.gpu.sum()) >= int(launches.gpu.sum())
    if not is_most and len(optimizer):
        return None
    steps = _search(later, sample_start(later)) if later.graph.sum() >= MANY else ""
    if isinstance(steps, str) or len(steps.first) < MANY:
        return None
    edges = np.r_[steps.first, steps.end]
    graphs = np.diff(np.searchsorted(np.flatnonzero(later.graph), edges))
    if np.mean(graphs > 0) < NEARLY_ALL:
        return None
    if not is_most and steps.end - int(steps.first[0]) < NEARLY_ALL * len(later):
        return None
    steps = steps.place_at(rows)
    has_one_graph = np.mean(graphs == 1) >= NEARLY_ALL
    return include_first_replays(launches, steps) if has_one_graph else steps


def _find_late_steps(launches: Launches) -> Repetition | None:
    """The steps that only the last launches repeat: those before are of an autotuner."""
    for part in LATE_SAMPLES:
        steps = _search(launches, int(part * len(launches)))
        if isinstance(steps, str) or len(steps.first) < MANY:
            continue
        inside = slice(int(steps.first[0]), steps.end)
        if launches.optimizer.any():
            if 2 * int(launches.optimizer[inside].sum()) > int(launches.optimizer.sum()):
                return steps
        elif _measure_work(launches, steps) >= LEAST_WORK:
            return steps
    return None


def _find_few_steps(launches: Launches) -> Repetition | None:
    """The steps that all launches together repeat, where the sample holds too few of them.

    The sample of a window of four steps holds two, and a micro-batch repeats in it. Steps do half
    of the GPU's work, else they are of a start-up.
    """
    if len(launches) > SAMPLE:
        return None
    steps = _search(launches, 0)
    if isinstance(steps, str):
        return None
    return steps if 2 * _measure_work(launches, steps) >= 1 else None


def _find_rarer_steps(launches: Launches) -> Repetition | None:
    """The steps of a program whose usual sample has none."""
    return (
        _find_late_steps(launches)
        or _find_few_steps(launches)
        or _find_steps_of_one_kernel(launches)
    )


def _find_steps_of_one_kernel(launches: Launches) -> Repetition | None:
    """The steps of a program that launches one kernel again and again: each begins after a pause
    of the host that is as long as LONG_PAUSE others.
    """
    begin = sample_start(launches)
    share = np.bincount(launches.token[begin:]).max() / (len(launches) - begin)
    if share < NEARLY_ALL or launches.communication[begin:].any():
        return None
    is_late = launches.pause >= LONG_PAUSE * max(1, int(np.median(launches.pause)))
    token = launches.token + is_late * (int(launches.token.max()) + 1)
    kind = launches.kind + is_late * (int(launches.kind.max()) + 1)
    steps = _search(replace(launches, token=token, kind=kind), begin)
    return None if isinstance(steps, str) or len(steps.first) < MANY else steps


def _missing(launches: Launches, cycles: Cycles) -> str:
    """What of a step the recording holds and the stretches lack, or an empty text.

    Such stretches are parts of a longer step. A window of one or two steps repeats only layers
    or micro-batches: the optimizer or the all-reduce of the gradients comes once.
    """
    reach = slice(max(0, int(cycles.place[0]) - cycles.size), int(cycles.place[-1]) + cycles.size)
    beyond = {
        "the optimizer": np.flatnonzero(launches.optimizer),
        "a collective": reach.start + np.flatnonzero(launches.communication[reach]),
    }
    return next((name for name, place in beyond.items() if _is_rare(cycles, place)), "")


def _is_rare(cycles: Cycles, place: IntArray) -> bool:
    """Whether launches at `place` exist, but in half of the stretches at most: with two
    micro-batches a step, every other stretch ends with the optimizer.
    """
    counts = np.diff(np.searchsorted(place, cycles.place))
    return bool(len(place)) and float(np.mean(counts > 0)) <= HALF
