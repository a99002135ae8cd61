"""A kind of finding: what it collects of each rank, and how it judges all ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpu_profile.analysis.activity.activity import Activity
from gpu_profile.analysis.activity.health import ReportHealth
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.findings.finding import Finding, Judgement
from gpu_profile.analysis.findings.places import FindPlace, find_middle_step
from gpu_profile.analysis.findings.view import View
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.store.database import Database

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class FindingRow:
    """A row of docs/findings.md: these causes of a finding, and when they are reported."""

    causes: tuple[str, ...]
    when: str


def collect_nothing(activity: Activity, database: Database) -> None:
    """For a rule that the common facts are enough for."""


def _judge_nothing(*_: object) -> Judgement:
    return Judgement()


def _change_nothing(_finding: Finding) -> Change | None:
    return None


def _know_no_time(*_: object) -> float | None:
    return None


def _is_never(*_: object) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class FindingRule(Generic[Fact]):
    """A kind of finding, the constant `RULE` of the file `<kind>.py` in a
    folder of `findings/rules/`.

    - `title` is the page's heading, `rows` are those of docs/findings.md.
    - `collect` computes from one rank what this rule alone needs. It runs where the report is read,
      in another process, so it is a function at the top level of its module, and its result must
      be small when pickled: sums by window or by name, never events. What other analyses of the
      same rank need too is cached by `once_each`.
    - `judge` gets the views of all ranks with steps (of all ranks, if none has steps), each with
      its rank's `fact`.
    - `judge_reports` gets the views of all ranks and the health of all reports.
    - `time_ms`: the idle or exposed time of a cause in a step of a rank (ms), None where nobody
      knows it. It is what the cause costs at most, where nothing can be replayed.
    - `explains`: whether findings of this kind explain another one, which is then left out.
    - `unclear_without_steps`: whether a finding of this kind may be start-up in a recording
      without steps. It is then a note.
    - `needs_all_kernels`: `judge` gets only ranks whose kernels were recorded (has_all_kernels).
    - `holds_tracing_cost`: its cost includes the profiler's overhead at each launch.
    - `excess`: by step how much a cause adds that differs from step to step, in ns or a count. The
      replayed steps may hold more or less of it than all steps do.
    - `place`: where the recording shows a finding of this kind, to which the page leads; a steady
      step without it.
    - `edit`: the change of the program that takes a finding's cause away, to be replayed; None
      where nobody knows what is left without it.
    """

    kind: str
    title: str
    rows: tuple[FindingRow, ...]
    collect: Callable[[Activity, Database], Fact]
    judge: Callable[[Sequence[View[Fact]]], Judgement] = _judge_nothing
    judge_reports: Callable[[Sequence[View[Fact]], Sequence[ReportHealth]], Judgement] = (
        _judge_nothing
    )
    time_ms: Callable[[View[Fact], str], float | None] = _know_no_time
    explains: Callable[[Sequence[Finding], Finding], bool] = _is_never
    unclear_without_steps: Callable[[Finding], bool] = _is_never
    place: FindPlace = find_middle_step
    needs_all_kernels: bool = False
    holds_tracing_cost: bool = False
    edit: Callable[[Finding], Change | None] = _change_nothing
    excess: Callable[[View[Fact]], IntArray] | None = None
