"""Find training steps by NVTX ranges: by the name of a range, or because it fills the time."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges, normal_name
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.schema import MARKS_DOMAIN

STEP_NAME = re.compile(r"(^|[^a-z])(profiler|train(ing)?)?_?(step|iter|iteration|batch)([^a-z]|$)")
NOT_A_STEP = re.compile(r"optim|sched|zero_grad|forward|backward|data|load|adam|sgd")
_ARGUMENTS = re.compile(r":#\w+=.*")
# With fewer repetitions the spread of the step times is unknown.
FEWEST_STEPS = 3
# A repeated outermost range without a name like "step" must cover half of the recorded time.
NAMELESS_COVER = 0.5

MARKED_STEP = f"{MARKS_DOMAIN}:step"
"""The steps that `profile --annotate` marks."""
_PHASE = re.compile(rf"{MARKS_DOMAIN}:(forward|backward|optimizer .*)$")
FORWARD, BACKWARD, OPTIMIZER = "F", "B", "O"
# An evaluation comes between few steps. Where more than an eighth of the steps have more forward
# passes than the others, these are a part of the loop, and their time counts: reinforcement
# learning plays, and rank 0 evaluates while the others wait.
MOST_EVALUATIONS = 1 / 8

_NONE = np.empty(0, np.int64)

HostSteps = tuple[str, IntArray, IntArray]
"""(how the steps were found, start, end of each step on the host)."""
Groups = dict[str, IntArray]
"""The rows of the ranges with a name."""


@once_each
def named_steps(ranges: Ranges) -> HostSteps | None:
    """The steps of --annotate; else the longest repeated range called step, iteration or batch;
    else an outermost one that fills the time.

    In a domain other than the default one, which can belong to a library, only the name counts.
    """
    if marked := _choose_steps(_list_marked(ranges), _marked, fewest=1):
        return marked
    domains = (ranges.of_domain(domain) for domain in list_distinct(ranges.domain) if domain)
    elsewhere = (_choose_steps(domain, _telling) for domain in domains)
    return _choose_steps(ranges.of_user(), _list_candidates) or next(filter(None, elsewhere), None)


def _list_marked(ranges: Ranges) -> Ranges:
    """The steps of --annotate that end with an optimizer; none if no optimizer is marked.

    The marks count steps by calls of an optimizer: inference, and an update by hand, have one step
    from the first forward to the end of the program. So has what follows the last optimizer, such
    as an evaluation. GradScaler skips the optimizer in the first steps, which are steps.
    """
    marked, phases = ranges.called(MARKED_STEP), find_phases(ranges)
    last = phases.start[phases.kind == OPTIMIZER][-1:]
    return marked.pick(np.flatnonzero(marked.start < last) if len(last) else _NONE)


@dataclass(frozen=True, eq=False)
class Phases:
    """The outermost phases that --annotate marks on the thread of the steps, in time order.

    `kind` is FORWARD, BACKWARD or OPTIMIZER. A module that the backward pass recomputes is none.
    """

    kind: NDArray[np.str_]
    start: IntArray
    end: IntArray

    def pick(self, rows: IntArray | NDArray[np.bool_]) -> "Phases":
        return Phases(self.kind[rows], self.start[rows], self.end[rows])


@once_each
def find_phases(ranges: Ranges) -> Phases:
    """The phases of the marked steps; empty without marks."""
    threads = list_distinct(ranges.called(MARKED_STEP).thread)
    codes = {
        code: match[1][0] for code, name in enumerate(ranges.names) if (match := _PHASE.match(name))
    }
    rows = np.flatnonzero(is_among(ranges.name, list(codes)) & is_among(ranges.thread, threads))
    reach = np.r_[-1, np.maximum.accumulate(ranges.end[rows])][: len(rows)]
    rows = rows[ranges.start[rows] >= reach]
    kind = np.array([codes[code].upper() for code in ranges.name[rows].tolist()], np.str_)
    return Phases(kind, ranges.start[rows], ranges.end[rows])


def find_evaluations(ranges: Ranges, start: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """For each marked step that begins with an evaluation: its row in `start`, when the step before
    ended its optimizer, and when its own first forward pass begins.

    A step has as many forward passes before its first backward pass as most steps have; those of an
    evaluation come before.
    """
    phases = find_phases(ranges)
    forward, backward = (phases.start[phases.kind == kind] for kind in (FORWARD, BACKWARD))
    edges = np.r_[backward, FOREVER][np.searchsorted(backward, start)]
    first, stop = np.searchsorted(forward, start), np.searchsorted(forward, edges)
    usual = int(np.quantile(stop - first, 0.5, method="lower")) if len(start) else 0
    rows = np.flatnonzero((stop - first > usual) & (edges < np.r_[start[1:], FOREVER]))
    if not usual or len(rows) > max(1, MOST_EVALUATIONS * len(start)):
        return _NONE, _NONE, _NONE
    trained = phases.end[phases.kind == OPTIMIZER]
    place = np.searchsorted(trained, start[rows], side="right")
    before = np.r_[trained, 0][place - 1]
    inside = (place > 0) & (rows > 0) & (before > start[rows - 1])
    return rows, np.where(inside, before, start[rows]), forward[stop[rows] - usual]


def silent_since(ranges: Ranges) -> int | None:
    """The end of the last marked optimizer; None without one, or if an evaluation follows.

    An evaluation has forward passes, and no backward pass.
    """
    phases = find_phases(ranges)
    ends = phases.end[phases.kind == OPTIMIZER]
    after = phases.kind[phases.start >= ends[-1]] if len(ends) else phases.kind
    if not len(ends) or (FORWARD in after and BACKWARD not in after):
        return None
    return int(ends[-1])


def tell_unfinished(ranges: Ranges) -> str:
    """What the marks tell of a training without an optimizer's call, e.g. one that was ended while
    torch.compile worked in its first step; "" for other programs.
    """
    kinds = find_phases(ranges).kind
    passes = int(np.sum(kinds == BACKWARD))
    if not passes or OPTIMIZER in kinds:
        return ""
    if passes == 1:
        return "; the recording ends in the first step: one backward pass is marked, no optimizer"
    return f"; {passes} backward passes are marked, and no optimizer"


def number_steps(ranges: Ranges, start: IntArray) -> IntArray:
    """The numbers of the marked steps that begin at these times, counted from the program's first
    step; empty if a step has none.
    """
    marked = ranges.called(MARKED_STEP)
    place = np.minimum(np.searchsorted(marked.start, start), max(len(marked.start) - 1, 0))
    if not len(marked.start) or not np.array_equal(marked.start[place], start):
        return np.empty(0, np.int64)
    numbers = marked.payload[place]
    return numbers if np.all(np.diff(numbers) > 0) and numbers.min(initial=0) >= 0 else start[:0]


def _choose_steps(
    ranges: Ranges,
    candidates: Callable[[Ranges, Groups], Iterable[str]],
    fewest: int = FEWEST_STEPS,
) -> HostSteps | None:
    """The first candidate whose ranges do not overlap.

    A range still open at the end of a recording window (--duration) is left out.
    """
    ranges = ranges.pick(np.flatnonzero(ranges.end != FOREVER))
    repeated = {name: rows for name, rows in _by_name(ranges) if len(rows) >= fewest}
    for name in candidates(ranges, repeated):
        rows = repeated[name]
        start, end = ranges.start[rows], ranges.end[rows]
        if np.all(end[:-1] <= start[1:]):
            return f"range {name}", start, end
    return None


def _by_name(ranges: Ranges) -> Iterator[tuple[str, IntArray]]:
    """Yield (name, rows) of the ranges by first range; numbers in names become "#" ("step #")."""
    normal = [normal_name(name) for name in ranges.names]
    names = list(dict.fromkeys(normal))
    code = np.array([names.index(name) for name in normal], np.int64)[ranges.name]
    for number in range(len(names)):
        if len(rows := np.flatnonzero(code == number)):
            yield names[number], rows


def _marked(_ranges: Ranges, repeated: Groups) -> Iterable[str]:
    return repeated


def _telling(ranges: Ranges, repeated: Groups) -> list[str]:
    return _sort_by_length(ranges, repeated, [name for name in repeated if _tells(name.lower())])


def _list_candidates(ranges: Ranges, repeated: Groups) -> Iterator[str]:
    """Yield the names of ranges that can be steps.

    Of several outermost parts of a step, such as "forward" and "backward", none is the step: with
    gradient accumulation each comes several times in one.
    """
    yield from _telling(ranges, repeated)
    outermost = _find_outermost(ranges)
    parts = {
        name
        for name, rows in _by_name(ranges)
        if NOT_A_STEP.search(name.lower()) and not outermost.isdisjoint(rows.tolist())
    }
    for name, rows in repeated.items():
        is_part = name in parts and len(parts) > 1
        if not is_part and _fills(ranges, rows.tolist(), outermost):
            yield name


def _tells(name: str) -> bool:
    """Whether a range says that it is a step; XLA writes arguments after its ranges' names, as in
    "XlaPass:#name=algsimp,module=jit_train_step#".
    """
    bare = _ARGUMENTS.sub("", name)
    return bool(STEP_NAME.search(bare)) and not NOT_A_STEP.search(bare)


def _sort_by_length(ranges: Ranges, groups: Groups, names: list[str]) -> list[str]:
    def length(name: str) -> int:
        rows = groups[name]
        return int((ranges.end[rows] - ranges.start[rows]).sum())

    return sorted(names, key=lambda name: (-length(name), name))


def _find_outermost(ranges: Ranges) -> set[int]:
    outer_rows, reach = set(), dict[int, int]()
    for index, (start, end, thread) in enumerate(
        zip(ranges.start.tolist(), ranges.end.tolist(), ranges.thread.tolist(), strict=True)
    ):
        if start >= reach.get(thread, start):
            outer_rows.add(index)
            reach[thread] = end
    return outer_rows


def _fills(ranges: Ranges, rows: list[int], outermost: set[int]) -> bool:
    if not outermost.issuperset(rows):
        return False
    start, end = ranges.start[rows], ranges.end[rows]
    return bool((end - start).sum() >= NAMELESS_COVER * (end[-1] - start[0]))
