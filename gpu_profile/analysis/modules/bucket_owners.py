"""The modules whose gradients a collective of the backward pass reduces.

DDP reduces a bucket in the hook after the last of its parameters (torch/csrc/distributed/c10d/
reducer.cpp), which lies in that parameter's `accumulate` mark: the bucket holds what was
accumulated since the bucket before. FSDP2 reduces a module's gradients in that module's own
`backward` mark, after their accumulation. What else reduces in a module's backward, such as
tensor parallelism, has no gradient of a parameter before it: its owner stays unknown.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE, find_own_innermost
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.marks import (
    ACCUMULATE,
    BACKWARD,
    FORWARD,
    Mark,
    Marks,
    Module,
    is_inside,
    phases_of,
)


@dataclass
class _Pass:
    """One backward pass: the modules whose gradients wait for a collective."""

    pending: Counter[Module] = field(default_factory=Counter)
    last: str | None = None
    """The name of the last collective's owner, as long as no gradient came after it."""

    def accumulate(self, module: Module) -> None:
        self.pending[module] += 1
        self.last = None

    def reduce(self, mark: Mark) -> str:
        """The name of the module that owns what is reduced at a launch inside `mark`, or ""."""
        if self.last is not None:
            return self.last
        modules = list(self.pending)
        if mark.phase == BACKWARD:
            modules = [module for module in modules if is_inside(module, mark.module.name)]
        for module in modules:
            del self.pending[module]
        of_bucket = mark.phase == ACCUMULATE
        self.last = _find_holder(modules) if of_bucket else mark.module.name if modules else ""
        return self.last


def find_bucket_owners(
    marks: Marks, mark_names: IntArray, time: IntArray
) -> Sequence[Module | None]:
    """The module of each collective, None where it is not known.

    `mark_names`: the innermost mark at each launch, a code of `marks.by_name` or NO_RANGE; `time`:
    the launches (ns), rising. Both have one length.
    """
    phase = np.array([*(mark.phase for mark in marks.by_name), ""])
    rows = np.flatnonzero(phase[marks.ranges.name] == ACCUMULATE)
    inside = np.flatnonzero(np.isin(phase[mark_names], (ACCUMULATE, BACKWARD)))
    owners: list[Module | None] = [None] * len(time)
    if not len(rows) or not len(inside):
        return owners
    modules = _list_modules(marks)
    events = _list_events(marks, rows, mark_names[inside], time[inside])
    for place, name in _name_owners(marks, events):
        owners[inside[place]] = modules.get(name, Module(name)) if name else None
    return owners


def _list_events(
    marks: Marks, rows: IntArray, names: IntArray, time: IntArray
) -> Iterator[tuple[int, int, int]]:
    """(backward pass, name of the mark, place of the collective or -1) by time."""
    # Gradients before collectives: a stable sort keeps them first where both are at one time.
    moment = np.r_[marks.ranges.start[rows], time]
    name = np.r_[marks.ranges.name[rows], names]
    place = np.r_[np.full(len(rows), -1), np.arange(len(time))]
    passes = _find_passes(marks, moment)
    order = np.argsort(moment, kind="stable")
    yield from zip(passes[order].tolist(), name[order].tolist(), place[order].tolist(), strict=True)


def _find_passes(marks: Marks, moment: IntArray) -> IntArray:
    """The number of the backward pass that is open at each moment, or NO_RANGE."""
    phases = phases_of(marks)
    is_backward = np.array([mark.phase == BACKWARD for mark in marks.by_name], bool)
    backward = phases.pick(np.flatnonzero(is_backward[phases.name]))
    if not len(backward.start):
        return np.full(len(moment), NO_RANGE)
    return find_own_innermost(backward, np.full(len(moment), backward.thread[0]), moment)


def _name_owners(marks: Marks, events: Iterator[tuple[int, int, int]]) -> Iterator[tuple[int, str]]:
    """(place of a collective, its owner's name or "").

    FSDP2's last collective of a pass also holds the gradients that no other one took: those of the
    outermost module.
    """
    number, now = None, _Pass()
    last: tuple[int, str, str] | None = None
    for pass_number, name, place in events:
        mark = marks.by_name[name]
        if pass_number != number:
            yield from _settle(last, now)
            number, now, last = pass_number, _Pass(), None
        if place < 0:
            now.accumulate(mark.module)
            continue
        yield from _settle(last, _Pass())
        last = (place, now.reduce(mark), mark.phase)
    yield from _settle(last, now)


def _settle(last: tuple[int, str, str] | None, now: _Pass) -> Iterator[tuple[int, str]]:
    if last is not None:
        place, name, phase = last
        yield place, "" if phase == BACKWARD and now.pending else name


def _find_holder(modules: Sequence[Module]) -> str:
    """The name of the innermost module that holds all of them: "h.3" for h.3.attn and h.3.mlp; ""
    if only the outermost one does.
    """
    names = [module.name.split(".") for module in modules if not module.is_nameless]
    if not names or len(names) < len(modules):
        return ""
    shared = 0
    while all(len(name) > shared and name[shared] == names[0][shared] for name in names):
        shared += 1
    return ".".join(names[0][:shared])


def _list_modules(marks: Marks) -> dict[str, Module]:
    """The modules with a mark, by name; those of forwards go first."""
    ordered = sorted(marks.by_name, key=lambda mark: mark.phase == FORWARD)
    return {mark.module.name: mark.module for mark in ordered if mark.module.is_real}
