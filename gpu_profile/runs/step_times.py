"""The times of a program's steps, which `profile --steps` has it write beside its report."""

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import files
from gpu_profile.errors import ReportError

_MOST_BYTES = 1 << 20
_MOST_STEPS = 200  # of 512 ranks these make 2 MB of run.json
_BEHIND = 50  # of them, those behind the window
_FEWEST = 3


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """Milliseconds of steps by the program's clock. `first` is the number of the first one.

    `recorded` is (20, 40) if the report holds steps 20 to 39.
    """

    first: int
    recorded: tuple[int, int]
    ms: tuple[float, ...]

    def median_ms(self, *, recorded: bool) -> float | None:
        """Return the median of the steps in the report, or of the others; None of under three."""
        begin, end = self.recorded
        numbered = enumerate(self.ms, self.first)
        times = [ms for number, ms in numbered if (begin <= number < end) is recorded]
        return statistics.median(times) if len(times) >= _FEWEST else None

    def control_ms(self) -> float:
        """Return the mean of the steps behind the recording; 0 of under three.

        The first of them is left out: the recording ends in it. Steps before the recording may
        still warm up.
        """
        behind = self.ms[max(0, self.recorded[1] + 1 - self.first) :]
        return statistics.fmean(behind) if len(behind) >= _FEWEST else 0.0


def read_step_times(report: Path) -> StepTimes | None:
    """Return the times beside `rank0.host.nsys-rep`, in `rank0.host.steps.json`, or None.

    The file comes from the job's machine: one that is damaged counts as none.
    """
    path = report.with_name(report.name.removesuffix(".nsys-rep") + ".steps.json")
    try:
        words = json.loads(files.read_text(path, _MOST_BYTES))
        begin, end = map(int, words["recorded"])
        step_ms = [float(ms) for ms in words["ms"]]
    except (OSError, ReportError, ValueError, TypeError, KeyError, RecursionError):
        return None
    if not (0 <= begin <= end) or not all(math.isfinite(ms) and ms >= 0 for ms in step_ms):
        return None
    first = max(0, min(len(step_ms), end + _BEHIND) - _MOST_STEPS)
    return StepTimes(
        first=first, recorded=(begin, end), ms=tuple(step_ms[first : first + _MOST_STEPS])
    )


def describe_step_times(rank: int, times: StepTimes) -> str:
    """Return one line on what the recording cost in each step; empty if too few steps tell."""
    traced, other = times.median_ms(recorded=True), times.median_ms(recorded=False)
    if not traced or not other:
        return ""
    begin, end = times.recorded
    return (
        f"rank {rank}, by the program's clock: {traced:.2f} ms a step in steps {begin} to"
        f" {end - 1}, which are recorded; {other:.2f} ms in the others ({traced / other:.3f}x)"
    )
