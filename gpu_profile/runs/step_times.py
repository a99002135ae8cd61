"""The times of a program's steps, which its marks write beside its report, recorded or not."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import files
from gpu_profile.errors import ReportError
from gpu_profile.runs.reports.report_files import strip_suffix

ENDING = ".steps.json"
_MOST_BYTES = 1 << 21  # 100,000 steps, the most that the marks write, take 1 MB
_MOST_STEPS = 200  # of 512 ranks these make 2 MB of run.json
_BEHIND = 50  # of them, those behind the recording
_START_STEPS = 20  # of the program: compilers, autotuning
_FEWEST = 3
_EVALUATION = 10.0
"""A step that takes as many times the median holds an evaluation or a checkpoint."""
_SLOW = 2.0
"""A step is slow if it takes as many times the median, and nothing as slow was recorded."""
_HABIT = 1.5
"""Three recorded steps that take as many times the median are a habit, as for a replay. A program
that compiles in each tenth step takes 1,200 ms there, 13 in the others, and 135 in the mean."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """Steps that were not recorded, and what they tell of those that were.

    `first` is the number of the first of `count` steps. `ms` is their mean, `recorded_ms` that of
    the recorded steps. `slow_step` took `slow_ms`, 0 for none: it is slower than all that is
    recorded.
    """

    first: int
    count: int
    ms: float
    recorded_ms: float
    slow_step: int = 0
    slow_ms: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Milliseconds of all steps by the program's clock.

    `recorded` is (20, 40) if the report holds steps 20 to 39. `control` is the first step behind
    the end of nsys' work, None where there is none.
    """

    ms: tuple[float, ...]
    recorded: tuple[int, int]
    control: int | None = None

    def excerpt(self) -> tuple[int, tuple[float, ...]]:
        """Return the number and times of the steps around the recording's end, at most 200."""
        first = max(0, min(len(self.ms), self.recorded[1] + _BEHIND) - _MOST_STEPS)
        return first, self.ms[first : first + _MOST_STEPS]

    def steady_ms(self) -> float:
        """Return the mean of the recorded steps behind the program's start; 0 of under three."""
        steady = self._list_steady()
        return find_mean(steady, steady)

    def _list_steady(self) -> Sequence[float]:
        begin, end = self.recorded
        return leave_out_start(self.ms[:end], begin)

    def find_control(self) -> Control | None:
        """Return the control: up to 200 steps behind the recording. None of under three.

        Steps before the recording may still warm up.
        """
        if self.control is None:
            return None
        behind = self.ms[self.control :]
        nearest = behind[:_MOST_STEPS]
        if len(nearest) < _FEWEST:
            return None
        slow_step, slow_ms = self._find_slow(behind)
        return Control(
            first=self.control,
            count=len(nearest),
            ms=find_mean(nearest, self._list_steady()),
            recorded_ms=self.steady_ms(),
            slow_step=slow_step,
            slow_ms=slow_ms,
        )

    def explain_missing(self) -> str:
        """Return why there is no control although steps were made behind the recording; else ""."""
        behind = len(self.ms) - self.recorded[1]
        if behind < 1 or self.find_control() is not None:
            return ""
        if self.control is None:
            return f"the program ended {behind} steps behind it, while nsys made its report"
        made = max(0, len(self.ms) - self.control)
        return f"the program ended {made} steps behind nsys' work on its report, {_FEWEST} count"

    def _find_slow(self, behind: Sequence[float]) -> tuple[int, float]:
        """Return the slowest step's number and time; (0, 0) where it is not slow."""
        begin, end = self.recorded
        slowest = max(behind)
        recorded = max(self.ms[max(begin, _START_STEPS) : end], default=0.0)
        if slowest < _SLOW * statistics.median(behind) or slowest < _SLOW * recorded:
            return 0, 0.0
        return self.ms.index(slowest, len(self.ms) - len(behind)), slowest


def leave_out_start(times: Sequence[float], begin: int = 0) -> Sequence[float]:
    """Return the times from step `begin` on, without the program's start if three are left."""
    steady = times[max(begin, _START_STEPS) :]
    return steady if len(steady) >= _FEWEST else times[begin:]


def find_mean(times: Sequence[float], recorded: Sequence[float]) -> float:
    """Return the mean without evaluations and checkpoints; 0 of under three times.

    Steps that are as slow as three of the recorded ones are no evaluations, however slow they are.
    """
    if len(times) < _FEWEST:
        return 0.0
    most = _EVALUATION * statistics.median(times)
    usual = statistics.median(recorded or times)
    habits = [ms for ms in recorded if ms > _HABIT * usual]
    if len(habits) >= _FEWEST:
        most = max(most, _SLOW * max(habits))
    return statistics.fmean(ms for ms in times if ms <= most)


def find_times_file(directory: Path) -> Path | None:
    """Return the file of the lowest rank of a run, or None."""
    paths = (path for path in directory.glob(f"rank*{ENDING}") if path.is_file())
    # The shortest name first: rank2 is before rank10.
    return min(paths, key=lambda path: (len(path.name), path.name), default=None)


def read_step_times(report: Path) -> StepTimes | None:
    """Return the times beside `rank0.host.nsys-rep`, in `rank0.host.steps.json`, or None.

    The file comes from the job's machine: one that is damaged counts as none.
    """
    return read_times(report.with_name(strip_suffix(report) + ENDING))


def read_times(path: Path) -> StepTimes | None:
    """Return the times of a file; None if it is missing or damaged, or tells of no step."""
    try:
        words = json.loads(files.read_text(path, _MOST_BYTES))
        begin, end = map(int, words["recorded"])
        step_ms = tuple(float(ms) for ms in words["ms"])
        # The marks of an older image say nothing: their recording ends in the step behind it.
        control = words.get("control", end + 1)
        control = None if control is None else int(control)
    except (OSError, ReportError, ValueError, TypeError, KeyError, RecursionError):
        return None
    is_known = 0 <= begin <= end and (control is None or control >= end)
    if not is_known or not all(math.isfinite(ms) and ms >= 0 for ms in step_ms):
        return None
    return StepTimes(ms=step_ms, recorded=(begin, end), control=control)
