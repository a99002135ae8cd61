"""The times of a program's steps, which its marks write beside its report, recorded or not."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import files
from gpu_profile.analysis.replay.shadow.plain_step import PHASES
from gpu_profile.errors import ReportError
from gpu_profile.runs.reports.report_files import strip_suffix

ENDING = ".steps.json"
STEP, FORWARD = "step", "forward"
_MOST_BYTES = 1 << 23  # 100,000 steps, the most that the marks write, take 4 MB with three phases
_MOST_STEPS = 200  # of 512 ranks these make 2 MB of run.json
_COUNTED = 50  # of them, those after the recording
_START_STEPS = 20  # of the program: compilers, autotuning
_FEWEST = 3
_ENOUGH = 10
"""So many slow steps tell their part within a tenth."""
_ENOUGH_PHASES = 10
"""So many steps have a quartile that a few slow ones do not move."""
_SLOW = 2.0
"""A step is slow if it takes as many times the median, and nothing as slow was recorded."""


@dataclass(frozen=True, kw_only=True)
class Control:
    """Steps that were not recorded, and what they tell of those that were.

    `first` is the number of the first of `count` steps. `ms` is their mean, `recorded_ms` that of
    the recorded steps. `slow_step` took `slow_ms`, 0 for none: it is slower than all that is
    recorded. `slow_part`: of the recorded steps, those that are slow, where `ms` has them as often
    and as slow as they were recorded; 0 where these steps tell it themselves. `forward_ratio`,
    `backward_ratio` and `optimizer_ratio`: of the host's time in these phases to that in the
    recorded steps, 0 where they were not timed.
    """

    first: int
    count: int
    ms: float
    recorded_ms: float
    slow_step: int = 0
    slow_ms: float = 0.0
    slow_part: float = 0.0
    forward_ratio: float = 0.0
    backward_ratio: float = 0.0
    optimizer_ratio: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Milliseconds of all steps by the program's clock.

    `recorded_steps` is (20, 40) if the report holds steps 20 to 39. `control` is the first step
    after the end of nsys' work, None where there is none. `unit`: "forward" where these are
    forwards of a program without an optimizer, of which a step of the report may hold several.
    `forward_ms`, `backward_ms` and `optimizer_ms` are those of the host in these phases of each
    step; empty where they were not timed.
    """

    ms: tuple[float, ...]
    recorded_steps: tuple[int, int]
    control: int | None = None
    unit: str = STEP
    forward_ms: tuple[float, ...] = ()
    backward_ms: tuple[float, ...] = ()
    optimizer_ms: tuple[float, ...] = ()

    def excerpt(self) -> tuple[int, tuple[float, ...]]:
        """Return the number and times of the steps around the recording's end, at most 200."""
        first = max(0, min(len(self.ms), self.recorded_steps[1] + _COUNTED) - _MOST_STEPS)
        return first, self.ms[first : first + _MOST_STEPS]

    def steady_ms(self) -> float:
        """Return the mean of the recorded steps after the program's start; 0 of under three."""
        steady = self._list_steady()
        return find_mean(steady, steady)

    def _list_steady(self) -> Sequence[float]:
        begin, end = self.recorded_steps
        return leave_out_start(self.ms[:end], begin)

    def find_control(self) -> Control | None:
        """Return the control: up to 200 steps after the recording. None of under three.

        Steps before the recording may still warm up.
        """
        if self.control is None:
            return None
        later_ms = self.ms[self.control :]
        nearest = later_ms[:_MOST_STEPS]
        if len(nearest) < _FEWEST:
            return None
        slow_step, slow_ms = self._find_slow(later_ms)
        ms, slow_part = self._measure(nearest)
        return Control(
            first=self.control,
            count=len(nearest),
            ms=ms,
            recorded_ms=self.steady_ms(),
            slow_step=slow_step,
            slow_ms=slow_ms,
            slow_part=slow_part,
            forward_ratio=self._compare_phase(self.forward_ms, self.control),
            backward_ratio=self._compare_phase(self.backward_ms, self.control),
            optimizer_ratio=self._compare_phase(self.optimizer_ms, self.control),
        )

    def _compare_phase(self, phase_ms: Sequence[float], control: int) -> float:
        """Return the ratio of a phase's time after the recording to the recorded one; 0 of few."""
        if len(phase_ms) != len(self.ms):
            return 0.0
        begin, end = self.recorded_steps
        recorded = leave_out_start(phase_ms[:end], begin)
        return compare_phase(recorded, phase_ms[control:][:_MOST_STEPS])

    def _measure(self, times: Sequence[float]) -> tuple[float, float]:
        """Return the mean of steps that were not recorded, and the part of slow ones in it that is
        taken from the recorded steps: of what each tenth step does, 13 steps hold one or two.
        """
        steady = self._list_steady()
        usual = _SLOW * statistics.median(steady or times)
        slow = [ms for ms in steady if ms > usual]
        part = len(slow) / max(1, len(steady))
        if len(slow) < _FEWEST or part * len(times) >= _ENOUGH:
            return find_mean(times, steady), 0.0
        others = find_mean(times, [ms for ms in steady if ms <= usual])
        return (1 - part) * others + part * find_mean(slow, slow), part

    def explain_missing(self) -> str:
        """Return why there is no control although steps were made after the recording; else ""."""
        more_steps = len(self.ms) - self.recorded_steps[1]
        if more_steps < 1 or self.find_control() is not None:
            return ""
        if self.control is None:
            steps = f"{more_steps} {self.unit}s after it"
            return f"the program ended {steps}, while nsys made its report"
        count = max(0, len(self.ms) - self.control)
        steps = f"{count} {self.unit}s after nsys' work on its report"
        return f"the program ended {steps}, {_FEWEST} count"

    def _find_slow(self, times: Sequence[float]) -> tuple[int, float]:
        """Return the slowest step's number and time; (0, 0) where it is not slow."""
        begin, end = self.recorded_steps
        slowest = max(times)
        recorded = max(self.ms[max(begin, _START_STEPS) : end], default=0.0)
        if slowest < _SLOW * statistics.median(times) or slowest < _SLOW * recorded:
            return 0, 0.0
        return self.ms.index(slowest, len(self.ms) - len(times)), slowest


def compare_phase(recorded: Sequence[float], later: Sequence[float]) -> float:
    """Return the ratio of a phase's time in later steps to the recorded one; 0 of under ten steps.

    The lower quartiles are compared: a host that runs ahead of its GPU waits for it in some steps,
    and a machine that others use makes some slower.
    """
    if min(len(recorded), len(later)) < _ENOUGH_PHASES:
        return 0.0
    before, after = (statistics.quantiles(times, n=4)[0] for times in (recorded, later))
    return after / before if before else 0.0


def leave_out_start(times: Sequence[float], begin: int = 0) -> Sequence[float]:
    """Return the times from step `begin` on, without the program's start if three are left."""
    steady = times[max(begin, _START_STEPS) :]
    return steady if len(steady) >= _FEWEST else times[begin:]


def find_mean(times: Sequence[float], recorded: Sequence[float]) -> float:
    """Return the mean of steps that are like the `recorded` ones; 0 of under three times.

    What three recorded steps hold is a part of the loop: a program that compiles in each tenth step
    takes 1,200 ms there, 13 in the others, and 135 in the mean. Other slow steps are by chance, an
    evaluation or a checkpoint. The replayed steps are chosen so, too.
    """
    if len(times) < _FEWEST:
        return 0.0
    third = sorted(recorded)[-_FEWEST] if len(recorded) >= _FEWEST else 0.0
    most = _SLOW * max(statistics.median(times), third)
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
        step_ms = _parse_times(words["ms"])
        # The marks of an older image say nothing: their recording ends in the step after it.
        control = words.get("control", end + 1)
        control = None if control is None else int(control)
        unit = FORWARD if words.get("unit") == FORWARD else STEP
        phases = dict(words.get("phases", {}))
        names = [f"{phase}_ms" for phase in PHASES]
        phase_ms = {name: _parse_times(phases.get(name, ())) for name in names}
    except (OSError, ReportError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if not 0 <= begin <= end or (control is not None and control < end):
        return None
    return StepTimes(
        ms=step_ms,
        recorded_steps=(begin, end),
        control=control,
        unit=unit,
        **phase_ms,
    )


def _parse_times(words: Sequence[float]) -> tuple[float, ...]:
    times = tuple(map(float, words))
    if not all(math.isfinite(ms) and ms >= 0 for ms in times):
        raise ValueError("no time")
    return times
