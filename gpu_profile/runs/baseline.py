"""The cost of profiling: the same job with and without nsys, by step time or by duration."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpu_profile.errors import SettingsError
from gpu_profile.runs.record import ReportSummary, RunRecord, load_run
from gpu_profile.runs.step_times import StepTimes

_FEWEST = 3


def step_times_ms(output: Iterable[str]) -> list[float]:
    """Return the `step_ms` of JSON lines in a job's output, as our samples print them."""
    return list(_step_times(output))


def _step_times(output: Iterable[str]) -> Iterator[float]:
    for line in output:
        start = line.find('{"step"')
        if start < 0:
            continue
        try:
            fields = json.loads(line[start:])
        except ValueError:
            continue
        if isinstance(fields, dict) and isinstance(fields.get("step_ms"), int | float):
            yield float(fields["step_ms"])


def compute_cost(
    plain: Iterable[str], profiled: Iterable[str], plain_s: float, profiled_s: float
) -> dict[str, float]:
    """Return `ratio` and the two values: median step times in ms, otherwise seconds in all.

    Step times need at least 3 steps in both outputs.
    """
    steps = step_times_ms(plain), step_times_ms(profiled)
    if min(map(len, steps)) >= _FEWEST:
        before, after = (statistics.median(each) for each in steps)
        return {"step_ms": before, "profiled_step_ms": after, "ratio": after / before}
    return {"wall_s": plain_s, "profiled_wall_s": profiled_s, "ratio": profiled_s / plain_s}


def describe_cost(baseline: Mapping[str, float]) -> str:
    """Return one line on the cost; empty without a baseline."""
    if not baseline:
        return ""
    unit = "step_ms" if "step_ms" in baseline else "wall_s"
    before, after = baseline[unit], baseline[f"profiled_{unit}"]
    what = "ms a step" if unit == "step_ms" else "s in all"
    ratio, times = baseline["ratio"], f"{before:.2f} -> {after:.2f} {what}"
    if ratio < 1:  # nsys makes nothing faster
        return f"what the profile cost is within the noise of runs: {ratio:.3f}x, {times}"
    return f"the profile cost {ratio:.3f}x: {times}"


def describe_cost_of(directory: Path) -> str:
    """Return the line on the cost of the run in this directory.

    Empty without a record, or with a damaged one: its reports can be read anyway.
    """
    try:
        return describe_cost(load_run(directory).baseline)
    except SettingsError:
        return ""


def find_control_ms(run: RunRecord) -> float:
    """Return the step (ms) without the profiler; 0 if it is not known.

    It is that of --baseline, else the mean of the slowest rank's steps behind the recording.
    """
    baseline_ms = run.baseline.get("step_ms", 0.0)
    return baseline_ms or max((_control_of(report) for report in run.reports), default=0.0)


def find_control_of(directory: Path) -> float:
    """Return find_control_ms() of the run in this directory; 0 without a record."""
    try:
        return find_control_ms(load_run(directory))
    except SettingsError:
        return 0.0


def _control_of(report: ReportSummary) -> float:
    if len(report.recorded_steps) != 2:
        return 0.0
    begin, end = report.recorded_steps
    times = StepTimes(first=report.first_step, recorded=(begin, end), ms=report.step_ms)
    return times.control_ms()
