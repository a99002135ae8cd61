"""Judge the runs of `ci`: two figures in pairs, and what differs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpu_profile.analysis.compare.compare import check_sides, parse_percent
from gpu_profile.analysis.compare.notes import list_notes
from gpu_profile.analysis.compare.rank_sets import check_ranks
from gpu_profile.analysis.compare.samples import Metric, RankSamples, make_sampler
from gpu_profile.analysis.compare.steady import sample_run
from gpu_profile.analysis.findings.diagnose import FINDINGS, judge_run
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.pull_request.changes import (
    Places,
    count_kernel_set,
    list_changes,
    list_kernels,
)
from gpu_profile.analysis.pull_request.figure import Figure
from gpu_profile.analysis.pull_request.places import average_places, collect_places
from gpu_profile.analysis.pull_request.result import CiResult
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.compared_run import ComparedRun, make_compared_run
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading

_WALL, _GPU = Metric("step"), Metric("gpu")
_NO_GPU = "the runs hold no GPU work: wall time alone is judged"


@dataclass(frozen=True)
class _SideRuns:
    """The runs of one side: the samples of each run's ranks in both metrics, and where their
    kernels come from.
    """

    runs: tuple[ComparedRun, ...]
    wall: list[list[RankSamples]]
    gpu: list[list[RankSamples]]
    places: list[Any]

    def diagnose(self, figure_ms: Sequence[float]) -> Diagnosis:
        """Return the findings of the run in the middle of these times."""
        # The run whose step is the median: its findings are of a typical run.
        middle = int(np.argsort(figure_ms)[len(figure_ms) // 2])
        reports = self.runs[middle].reports
        parts = [answer[0] for answer in reports.of([FINDINGS])]
        return judge_run(parts, reports.run.alignment.residual_ns or 0)


def judge_pairs(
    base: Sequence[Path],
    new: Sequence[Path],
    settings: Settings,
    *,
    title: str,
    fail_over: str,
    fail_over_gpu: str,
) -> CiResult:
    """Return the result of pairs of runs, the first of the base with the first of the change, …

    Raises ReportError where a run cannot be read, or lost data.
    """
    sides = _read_side("base", base, settings), _read_side("new", new, settings)
    for run in (*sides[0].runs[1:], *sides[1].runs):
        check_ranks(sides[0].runs[0].ranks, run.ranks)
    on_host = check_sides(sides[0].wall, sides[1].wall, _WALL)
    wall = _make_figure(_WALL, sides[0].wall, sides[1].wall, parse_percent(fail_over))
    if on_host:
        return CiResult(base=title, figures=(wall,), notes=(_NO_GPU,))
    check_sides(sides[0].gpu, sides[1].gpu, _GPU)
    gpu = _make_figure(_GPU, sides[0].gpu, sides[1].gpu, parse_percent(fail_over_gpu))
    kernels = list_kernels(sides[0].wall, sides[1].wall)
    diagnoses = sides[0].diagnose(wall.base_ms), sides[1].diagnose(wall.new_ms)
    places = Places.of(sides[0].places, sides[1].places)
    return CiResult(
        base=title,
        figures=(gpu, wall),
        changes=list_changes(kernels, places, diagnoses, wall),
        kernels=count_kernel_set(kernels),
        notes=tuple(list_notes(sides[0].wall, sides[1].wall)),
    )


def check_steps(side: str, directory: Path, settings: Settings) -> None:
    """Raise ReportError where a run cannot be read, or has no step that can be compared."""
    sample_run(_open_run(side, directory, settings).samples(_WALL), _WALL, side)


def _read_side(side: str, directories: Sequence[Path], settings: Settings) -> _SideRuns:
    runs = tuple(_open_run(side, directory, settings) for directory in directories)
    samplers = make_sampler(_WALL), make_sampler(_GPU), collect_places
    samples = [run.collect(*samplers) for run in runs]
    places = [average_places(run[2]) for run in samples]
    return _SideRuns(runs, [run[0] for run in samples], [run[1] for run in samples], places)


def _open_run(side: str, directory: Path, settings: Settings) -> ComparedRun:
    choice = ReportChoice(report=(str(directory),), notes=False)
    reports = open_reading(choice, settings, complete=True)
    return make_compared_run(f"{side} ({directory.name})", reports, directory)


def _make_figure(
    metric: Metric,
    base: Sequence[Sequence[RankSamples]],
    new: Sequence[Sequence[RankSamples]],
    fail_over: float,
) -> Figure:
    before = [sample_run(run, metric, "base").times for run in base]
    after = [sample_run(run, metric, "new").times for run in new]
    medians = [tuple(float(np.median(run)) / 1e6 for run in side) for side in (before, after)]
    return Figure(
        metric=metric.kind,
        base_ms=medians[0],
        new_ms=medians[1],
        fail_over=fail_over,
        fewest=min(map(len, (*before, *after))),
    )
