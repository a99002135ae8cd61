"""The marks that `profile --annotate` puts into a job: NVTX ranges of phases and modules.

They are push/pop ranges of the domain `gpu-profile`. A phase is `step`, `data`, `forward`,
`backward`, or `optimizer AdamW`. A module is `forward transformer.h.3.attn|Attention|model.py:123`
(its name, class, and the place of its class), `backward …` around its nodes of autograd, and
`accumulate …` around the accumulation of its parameters' gradients.
"""

import re
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.nvtx_ranges import Ranges
from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.store.schema import MARKS_DOMAIN

STEP, DATA, FORWARD, BACKWARD, OPTIMIZER = "step", "data", "forward", "backward", "optimizer"
ACCUMULATE = "accumulate"
PHASES = (STEP, DATA, FORWARD, BACKWARD, ACCUMULATE, OPTIMIZER)
OF_MODULES = (FORWARD, BACKWARD, ACCUMULATE)
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


@dataclass(frozen=True, order=True)
class Module:
    """A module of the model: `name` ("transformer.h.3.attn"), its class, and the file and line of
    the class ("model.py:123", "" if unknown).

    A name in parentheses is none of the model: "(optimizer AdamW)", "(AllReduce)".
    """

    name: str
    kind: str = ""
    place: str = ""

    @property
    def is_real(self) -> bool:
        return not self.name.startswith("(")

    @property
    def is_nameless(self) -> bool:
        """Whether nothing names the module, as the outermost one: its class stands for its name."""
        return bool(self.name) and self.name == self.kind


NOTHING = Module("")


@dataclass(frozen=True)
class Mark:
    """What a range marks: its phase (of PHASES, "" for a foreign name), and the module, NOTHING for
    a phase as a whole.
    """

    phase: str
    module: Module = NOTHING


@dataclass(frozen=True, eq=False)
class Marks:
    """The ranges of our domain, and what each of their names marks (by Ranges.name)."""

    ranges: Ranges
    by_name: tuple[Mark, ...]

    @property
    def has_modules(self) -> bool:
        """Whether the program was recorded with --annotate modules."""
        return any(mark.module.is_real and mark.module.name for mark in self.by_name)


def parse_mark(text: str) -> Mark:
    """The mark of a range's name without its domain.

    "forward h.3.attn|Attention|model.py:123" is the module h.3.attn, "optimizer AdamW group 1" the
    optimizer. A name with other words is a Mark without a phase.
    """
    phase, _, label = text.partition(" ")
    if phase not in PHASES:
        return Mark("")
    if phase == OPTIMIZER:
        return Mark(phase, Module(f"({text})", label.split(" ")[0]))
    if not label or phase not in OF_MODULES:
        return Mark(phase)
    # A label may be a name alone.
    name, kind, place = (*label.split("|"), "", "")[:3]
    return Mark(phase, Module(name or kind, kind, place))


@once_each
def load_marks(ranges: Ranges) -> Marks | None:
    """The marks among a process's ranges; None if it was recorded without --annotate."""
    prefix = f"{MARKS_DOMAIN}:"
    ours = [code for code, name in enumerate(ranges.names) if name.startswith(prefix)]
    rows = np.flatnonzero(np.isin(ranges.name, ours)) if ours else ()
    if not len(rows):
        return None
    domains = list_distinct(ranges.domain[rows])
    marked = ranges.of_domain(domains[0]) if len(domains) == 1 else ranges.pick(np.asarray(rows))
    texts = (
        name.removeprefix(prefix) if code in set(ours) else ""
        for code, name in enumerate(ranges.names)
    )
    return Marks(marked, tuple(parse_mark(text) for text in texts))


@once_each
def phases_of(marks: Marks) -> Ranges:
    """The ranges of phases, without those of modules, on the thread that has most of them."""
    is_phase = np.array(
        [
            bool(mark.phase) and not (mark.module.name and mark.module.is_real)
            for mark in marks.by_name
        ],
        bool,
    )
    rows = np.flatnonzero(is_phase[marks.ranges.name])
    threads, counts = np.unique(marks.ranges.thread[rows], return_counts=True)
    if not len(threads):
        return marks.ranges.pick(rows)
    return marks.ranges.pick(rows[marks.ranges.thread[rows] == threads[np.argmax(counts)]])


def fold_numbers(name: str) -> str:
    """The name with each part that is a number as `*`: "transformer.h.3.attn" is
    "transformer.h.*.attn".
    """
    return _NUMBER.sub("*", name)


def fold_module(module: Module) -> str:
    """The name with layers folded. One of numbers alone, as in an nn.Sequential, has its class:
    "* (Linear)".
    """
    name = fold_numbers(module.name)
    return name if name.strip("*.") or not module.kind else f"{name} ({module.kind})"


def cut_depth(module: Module, depth: int) -> str:
    """The name's first `depth` parts; the whole name for 0, and for what is no module."""
    return ".".join(module.name.split(".")[:depth]) if depth and module.is_real else module.name


def is_inside(module: Module, name: str) -> bool:
    """Whether the module has this name or is inside the module that has it.

    "h.3" holds "h.3.attn.proj"; "h.*.attn" holds those of all layers. An optimizer is
    "optimizer AdamW", or "(optimizer AdamW)" as module_sum has it.
    """
    plain, outer = module.name.strip("()"), name.strip("()")
    texts = (plain, fold_numbers(plain))
    return any(text == outer or text.startswith(f"{outer}.") for text in texts)
