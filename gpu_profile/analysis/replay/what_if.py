"""The step of a program with given changes: each one alone, and all together."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpu_profile.analysis.replay.changes import Change, combine
from gpu_profile.analysis.replay.edits.gpu_work import (
    find_kernels,
    scale_communication,
    scale_kernels,
)
from gpu_profile.analysis.replay.plan.make_plan import list_changes
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.shadow import Shadow
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.errors import SettingsError
from gpu_profile.printable import printable
from gpu_profile.table import Column, Table

COLUMNS = (
    Column("Change"),
    Column("Step", "ms", 3),
    Column("Gain", "ms", 3),
    Column("Gain of Step", "%"),
)
TOGETHER = "all together"


@dataclass(frozen=True)
class WhatIf:
    """`step_ms` is the step now, `error` that of the self-test. `steps`: (change, predicted step in
    ms), the last one TOGETHER if there are several. `is_recorded`: the step is that of the
    recording, else that of the program without the profiler.
    """

    step_ms: float
    error: float
    steps: tuple[tuple[str, float], ...]
    is_recorded: bool = True

    def to_table(self) -> Table:
        """One row for each change."""
        rows = tuple(
            (text, round(ms, 3), round(self.step_ms - ms, 3), self._share(ms))
            for text, ms in self.steps
        )
        return Table("what_if", COLUMNS, rows)

    def to_lines(self) -> list[str]:
        """The step now and the predicted ones as text."""
        which = "recorded" if self.is_recorded else "without the profiler"
        error = 100 * abs(self.error)
        lines = [f"step: {self.step_ms:.2f} ms {which}, by a replay that is {error:.1f} % off"]
        for text, ms in self.steps:
            gain = f"{self.step_ms - ms:.2f} ms, {self._share(ms):.1f} %"
            lines.append(f"{text}: {ms:.2f} ms (gains {gain})")
        return [printable(line) for line in lines]

    def as_json(self) -> dict[str, object]:
        """The answer as the schema "what_if" describes it."""
        return {
            "step_ms": round(self.step_ms, 3),
            "recorded": self.is_recorded,
            "error_percent": round(100 * self.error, 2),
            "changes": [
                {"change": text, "step_ms": round(ms, 3), "gain_ms": round(self.step_ms - ms, 3)}
                for text, ms in self.steps
            ],
        }

    def _share(self, ms: float) -> float:
        return round(100 * (self.step_ms - ms) / self.step_ms, 2)


def predict_changes(
    replay: Replay, changes: Sequence[Change], shadow: Shadow | None = None
) -> WhatIf:
    """Replay each change alone, and several together; with a `shadow` those of the program without
    the profiler.
    """
    unchanged = shadow.weights if shadow else Weights.of(replay.graph)
    step_ms = shadow.step_ms if shadow else replay.step_ms
    together = Change(TOGETHER, combine([change.apply for change in changes]))
    every = [*changes, together] if len(changes) > 1 else changes
    steps = tuple(
        (change.text, replay.predict_step(change.apply(replay.graph, unchanged)))
        for change in every
    )
    return WhatIf(step_ms, replay.test.error, steps, shadow is None)


def find_change(graph: RunGraph, text: str) -> Change:
    """The change of a plan with this text. Raises SettingsError for an unknown one."""
    changes = {change.text: change for change in list_changes(graph)}
    if text not in changes:
        names = ", ".join(map(repr, changes))
        raise SettingsError(f"--remove {text!r} is not known", f"Use finding:N, or one of {names}")
    return changes[text]


def parse_faster(text: str) -> Change:
    """The change of `gemm=2`: kernels whose names contain the pattern are twice as fast.

    Raises SettingsError for another form.
    """
    # From the right: a regular expression may hold `=`.
    pattern, _, number = text.rpartition("=")
    try:
        factor = float(number)
        re.compile(pattern)
    except (ValueError, re.error):
        factor = 0.0
    if not pattern or not factor > 0:
        hint = "Use --faster 'gemm=2': a regular expression, and how many times as fast"
        raise SettingsError(f"--faster {text!r} cannot be read", hint)
    return Change(f"{pattern} {number} times as fast", scale_kernels(pattern, 1 / factor))


def check_faster(graph: RunGraph, text: str) -> None:
    """Raise SettingsError where `nosuch=2` names no kernel: its gain of 0 ms would be no answer."""
    if not find_kernels(graph, text.rpartition("=")[0]).size:
        hint = "`invoke stats --table cuda_gpu_kern_sum` lists their names"
        raise SettingsError(f"--faster {text!r}: no compute kernel of the steps is like it", hint)


def scale_bandwidth(factor: float) -> Change:
    """The change in which communication moves data so many times as fast.

    Raises SettingsError unless `factor` is above 0.
    """
    if not factor > 0:
        raise SettingsError(f"--bandwidth {factor:g} is not above 0", "Use 2 for twice as fast")
    return Change(f"communication {factor:g} times as fast", scale_communication(1 / factor))
