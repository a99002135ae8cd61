"""The cost of profiling: the same job with and without nsys, by step time or by duration."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpu_profile import files
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PHASES, PlainStep, Ratios
from gpu_profile.errors import SettingsError
from gpu_profile.printable import name_program
from gpu_profile.runs.record import OUTPUT_FILE, ReportSummary, RunRecord, load_run
from gpu_profile.runs.step_times import (
    FORWARD,
    find_mean,
    find_times_file,
    leave_out_start,
    read_times,
)

_FEWEST = 3
_ENOUGH = 10
_AROUND = 2  # steps that are recorded before a slow one
CALLBACK_NS = 1_800
"""After the end of a recording each call of CUDA still passes nsys: 1.7 to 1.9 us of each, in a
loop of 567 calls on the host of an H200 (docs/accuracy.md)."""


def step_times_ms(output: Iterable[str]) -> list[float]:
    """Return the `step_ms` of JSON lines in a job's output, as our samples print them."""
    return list(_read_step_times(output))


def _read_step_times(output: Iterable[str]) -> Iterator[float]:
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


def list_step_ms(directory: Path) -> list[float]:
    """Return the milliseconds of the steps of a run: those that its marks tell, else its output.

    Of a run with nsys these are the recorded steps. Its output has those after them, too.
    """
    file = find_times_file(directory)
    times = read_times(file) if file else None
    marked = times.ms[slice(*times.recorded_steps)] if times else ()
    if len(marked) >= _FEWEST:
        return list(marked)
    return step_times_ms(files.read_text(directory / OUTPUT_FILE).splitlines())


def compute_cost(
    plain: Sequence[float], profiled: Sequence[float], plain_s: float, profiled_s: float
) -> dict[str, float]:
    """Return `ratio` and the two values: median step times in ms, otherwise seconds in all.

    `plain` and `profiled` are the milliseconds of steps, at least 3 of each to count. `mean_ms` is
    the mean of the plain ones after the start: what happens in each tenth step is in no median.
    """
    steps = plain, profiled
    if min(map(len, steps)) >= _FEWEST:
        before, after = (statistics.median(each) for each in steps)
        mean = find_mean(leave_out_start(plain), leave_out_start(profiled))
        ratio = after / before
        return {"step_ms": before, "profiled_step_ms": after, "ratio": ratio, "mean_ms": mean}
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


def find_plain_step(run: RunRecord) -> PlainStep:
    """Return the step that was not recorded.

    It is that of --baseline, which runs without nsys, else the mean of steps after the recording.
    """
    if any(report.step_unit == FORWARD for report in run.reports):
        return _find_ratio(run)
    # A run of an older version has the median alone.
    baseline_ms = run.baseline.get("mean_ms", run.baseline.get("step_ms", 0.0))
    if baseline_ms:
        return PlainStep(baseline_ms)
    chosen = _choose_control(run)
    if chosen is None:
        return NO_STEP
    return PlainStep(chosen.control["ms"], CALLBACK_NS, phases=_find_phases(chosen))


def _find_ratio(run: RunRecord) -> PlainStep:
    if "step_ms" in run.baseline:
        return PlainStep(ratio=run.baseline["step_ms"] / run.baseline["profiled_step_ms"])
    chosen = _choose_control(run)
    if not chosen or not chosen.control["recorded_ms"]:
        return NO_STEP
    ratio = chosen.control["ms"] / chosen.control["recorded_ms"]
    return PlainStep(callback_ns=CALLBACK_NS, ratio=ratio, phases=_find_phases(chosen))


def _find_phases(report: ReportSummary) -> Ratios:
    """The ratios of the phases; a run of an older version has none."""
    control = report.control
    forward, backward, optimizer = (control.get(f"{phase}_ratio", 0.0) for phase in PHASES)
    return forward, backward, optimizer


def _choose_control(run: RunRecord) -> ReportSummary | None:
    """The report whose control begins last, and of these the longest; ten steps are enough.

    Steps of a rank whose report was there earlier waited for ranks whose nsys still worked.
    """

    def rank_control(report: ReportSummary) -> tuple[float, float, float]:
        control = report.control
        return min(control["count"], _ENOUGH), control.get("first", 0), control["ms"]

    return max((report for report in run.reports if report.control), key=rank_control, default=None)


def describe_control(directory: Path) -> tuple[str, ...]:
    """Return lines on the steps that were not recorded.

    Where steps after the recording are no control, the line says why.
    """
    try:
        run = load_run(directory)
    except SettingsError:
        return ()
    if chosen := _choose_control(run):
        return _describe_control(chosen.rank, chosen.step_unit, chosen.control)
    return () if "step_ms" in run.baseline else _explain_missing(directory)


def _explain_missing(directory: Path) -> tuple[str, ...]:
    file = find_times_file(directory)
    times = read_times(file) if file else None
    reason = times.explain_missing() if times else ""
    advice = "a longer program, or `profile --baseline`, tells the step without the profiler"
    return (f"no step without the recording is known: {reason}; {advice}",) if reason else ()


def _describe_control(rank: int, unit: str, control: Mapping[str, float]) -> tuple[str, ...]:
    line = (
        f"by the clock of rank {rank}: {control['recorded_ms']:.2f} ms a {unit} recorded,"
        f" {control['ms']:.2f} ms in {control['count']:.0f} {unit}s that were not recorded"
    )
    if part := control.get("slow_part", 0.0):
        line += f", with {100 * part:.0f} % of slow {unit}s as recorded"
    slow = int(control.get("slow_step", 0))
    if not slow:
        return (line,)
    times = control["slow_ms"] / control["ms"]
    window = f"{max(0, slow - _AROUND)}:{slow + _AROUND}"
    again = name_program(f"`invoke profile --steps {window} -- …` records it")
    if unit == FORWARD:  # `--steps` counts steps of an optimizer
        again = name_program("`invoke profile --whole -- …` records it")
    return (line, f"{unit} {slow} took {control['slow_ms']:.2f} ms, {times:.1f}x as long: {again}")


def find_plain_step_of(directory: Path) -> PlainStep:
    """Return find_plain_step() of the run in this directory; none without a record."""
    try:
        return find_plain_step(load_run(directory))
    except SettingsError:
        return NO_STEP
