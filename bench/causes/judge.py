"""Judge predicted gains by measured ones.

A prediction is right if it names the cause and its gain is within 10 % of the step and 25 % of the
measured gain.
"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.causes.causes import find_causes
from bench.causes.host_times import read_host_ratios
from bench.causes.turns import RECORDED_STEPS, WARM_STEPS
from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import (
    DiagnosedReport,
    collect_report_facts,
    replay_parts,
)
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.replay.changes import combine
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow
from gpu_profile.analysis.replay.shadow.plain_step import NO_STEP, PlainStep
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.runs.reports.open_reports import open_reports
from gpu_profile.table import Table

LEAST_PARTS = 0.1  # of the program's steps: if fewer are counted, they are no groups of them
STEP_ERROR, GAIN_ERROR = 0.10, 0.25  # of the step, and of the measured gain


@dataclass(frozen=True)
class Score:
    """Times in ms a step. `gain` is measured, `spread` its least and most by pairs of blocks.
    `kinds`: of the findings, the largest first.
    """

    name: str
    step: float
    gain: float
    spread: tuple[float, float]
    predicted: float | None
    kinds: tuple[str, ...]

    @property
    def causes(self) -> tuple[str, ...]:
        return find_causes(self.name) or ()

    @property
    def is_right(self) -> bool:
        if self.predicted is None or self.kinds[0] not in self.causes:
            return False
        error = abs(self.predicted - self.gain)
        return error <= STEP_ERROR * self.step and error <= GAIN_ERROR * self.gain

    @property
    def is_host_bound(self) -> bool:
        """Whether its author expected launches to be the limit. Such programs are scored apart."""
        return "host_bound" in self.causes

    def to_row(self) -> str:
        predicted = "none" if self.predicted is None else f"{self.predicted:.2f}"
        low, high = self.spread
        gain = f"{self.gain:.2f} ({low:.2f} to {high:.2f})"
        kinds = ", ".join(self.kinds) or "nothing"
        right = "yes" if self.is_right else "no"
        return f"| {self.name} | {self.step:.2f} | {gain} | {predicted} | {kinds} | {right} |"


def score(folder: Path, *, has_control: bool = True) -> Score:
    """Score the recording in NAME/, with the measured step as control or without one."""
    turns = json.loads((folder / "turns.json").read_text())
    planted, fixed = turns["planted"], turns["fixed"]
    gains = [before - after for before, after in zip(planted, fixed, strict=True)]
    step = statistics.median(planted)
    facts, error_ns = read_ranks(sorted(folder.glob("planted.*sqlite*")))
    parts = _count_parts(facts)
    plain = PlainStep(step / parts, phases=read_host_ratios(folder)) if has_control else NO_STEP
    diagnosis = judge_run(facts, error_ns, plain)
    gain = step - statistics.median(fixed)
    kinds = tuple(dict.fromkeys(finding.kind for finding in diagnosis.findings))
    replay = replay_parts(facts, error_ns)
    predicted = _predict(replay, diagnosis, find_causes(folder.name) or (), plain)
    predicted = None if predicted is None else parts * predicted
    return Score(folder.name, step, gain, (min(gains), max(gains)), predicted, kinds)


def describe_fixed(folder: Path, *, has_control: bool = True) -> str:
    """The row of the findings in a recording with the fix."""
    step = statistics.median(json.loads((folder / "turns.json").read_text())["fixed"])
    facts, error_ns = read_ranks(sorted(folder.glob("fixed.*sqlite*")))
    parts = _count_parts(facts)
    findings = judge_run(facts, error_ns, PlainStep(step / parts if has_control else 0.0)).findings
    costs = ", ".join(f"{each.kind} {each.cost_ms * parts:.2f}" for each in findings)
    return f"| {folder.name} | {step:.2f} | {costs or 'nothing'} |"


def read_ranks(reports: Sequence[Path]) -> tuple[Sequence[DiagnosedReport], int]:
    """The reports of all ranks of a run, on one clock, and its error in ns."""
    sources = [ReportSource(str(report)) for report in reports]
    tell = partial(print, file=sys.stderr)
    reading = open_reports(sources, notify=tell, complete=True, together=True)
    answers = reading.of([Analysis("facts", collect_report_facts, _merge_nothing)])
    return [answer[0] for answer in answers], reading.run.alignment.residual_ns or 0


def _merge_nothing(_parts: object) -> Table:
    return Table("", (), ())


def _count_parts(facts: Sequence[DiagnosedReport]) -> float:
    """How many of the steps that the analysis counts make one of the program: 16 where parts of a
    step repeat, 0.25 where four steps look like one, of which the first one compiles.
    """
    step = judge_run(facts).overview.step
    counted = step.count + step.left_out if step else 0
    made = WARM_STEPS + RECORDED_STEPS
    if counted < LEAST_PARTS * made:
        return 1
    return round(counted / made) or 1 / round(made / counted)


def _predict(
    replay: Replay | str, diagnosis: Diagnosis, kinds: Sequence[str], plain: PlainStep
) -> float | None:
    """The gain of a program's fix, which takes away all causes of these kinds that were found.

    Of bounds only the first finding counts: a fix of a pause leaves the launches, and one of a loop
    of tiny kernels leaves those of the rest.
    """
    findings = [finding for finding in diagnosis.findings if finding.kind in kinds]
    causes = [*findings[:1], *(cause for cause in findings[1:] if not _is_bound(cause))]
    edits = [RULES[cause.kind].edit(cause) for cause in causes]
    changes = [edit.apply for edit in edits if edit]
    shadow = None if isinstance(replay, str) else find_shadow(replay, plain.ms, ratios=plain.phases)
    if len(changes) < 2 or isinstance(replay, str) or shadow is None:
        return max((cause.cost_ms for cause in causes), default=None)
    change = combine(changes)
    return shadow.step_ms - replay.predict_step(change(replay.graph, shadow.weights))


def _is_bound(finding: Finding) -> bool:
    change = RULES[finding.kind].edit(finding)
    return change is not None and change.is_bound


def list_folders(words: Sequence[str], mode: str = "planted") -> Iterator[Path]:
    """These folders of recordings, and those below them."""
    for word in words:
        reports = (*Path(word).glob(f"{mode}.*sqlite*"), *Path(word).glob(f"*/{mode}.*sqlite*"))
        folders = {path.parent.resolve() for path in reports}
        yield from sorted(folder for folder in folders if find_causes(folder.name) is not None)
