"""Run, an opened run: its tables, findings, steps and comparisons."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_profile.analysis.compare.compare import compare_samples
from gpu_profile.analysis.compare.rank_sets import check_ranks
from gpu_profile.analysis.compare.samples import Metric
from gpu_profile.analysis.compare.significance import ASSUMED_SPREAD
from gpu_profile.analysis.findings.diagnose import FINDINGS, judge_run
from gpu_profile.analysis.tables import views
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.api.html import describe_html
from gpu_profile.api.results import RunComparison, RunFindings, RunTable
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.runs.baseline import describe_cost_of, find_plain_step_of
from gpu_profile.runs.reports.open_reports import Reading
from gpu_profile.table import Column
from gpu_profile.verbs.reading.compared_run import ComparedRun, make_compared_run


@dataclass(frozen=True, eq=False)
class Run:
    """The reports of one run. `places` are their paths and URLs.

    `is_file`: one report was named by its file. A comparison then does not ask for the other ranks
    of its run.

    Nothing is read until a method needs it, and each method reads anew.
    """

    places: tuple[str, ...]
    reading: Reading
    is_file: bool = False

    @functools.cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have a report, such as (0, 1, 2, 3)."""
        by_report = self.reading.run.ranks.by_report
        return tuple(sorted({rank for by_pid in by_report for rank in by_pid.values()}))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, such as "no report of rank 3: what follows is of the others"."""
        return tuple(self.reading.run.notes())

    def tables(self) -> tuple[str, ...]:
        """Return the names of all tables: nsys' first, then ours."""
        return (*ANALYSES, *OURS)

    def table(self, name: str, *, by: str = "") -> RunTable:
        """Return a table of all reports together, such as "cuda_gpu_kern_sum".

        `by` groups its rows: "rank", "device" or "stream". Raises SettingsError for an unknown
        name, ReportError if no report could be read.
        """
        analysis = ANALYSES.get(name) or OURS.get(name)
        if analysis is None:
            hint = did_you_mean(name, self.tables()) or "tables() lists them"
            raise SettingsError(f"no table is called {name!r}", hint)
        views.check_by(by, analysis.by, analysis.name)
        answers = self._group_tables(by).of([analysis])
        return RunTable.of(analysis.merge([answer[0] for answer in answers]))

    def findings(self) -> RunFindings:
        """Return the findings, those of the plan first, and what was not judged."""
        parts = [answer[0] for answer in self.reading.of([FINDINGS])]
        directory = Path(self.places[0]).parent
        error_ns = self.reading.run.alignment.residual_ns or 0
        diagnosis = judge_run(parts, error_ns, find_plain_step_of(directory))
        cost = describe_cost_of(directory)
        return RunFindings.of(diagnosis.with_cost(cost))

    def steps(self) -> RunTable:
        """Return table `step_trace`: one row for each step of each rank, times in ns."""
        return self.table("step_trace")

    def compare(
        self,
        *runs: "Run",
        metric: str = "step",
        fail_over: float = 0.05,
        spread: float = ASSUMED_SPREAD,
    ) -> RunComparison:
        """Compare this run, the base, with one or more runs of the new program.

        `metric` is "step", "gpu", "range:NAME" or "kernel:NAME". `fail_over` is the allowed change
        (0.05 is 5 %). `spread` is by how much runs of one program are assumed to differ where there
        are too few of them to tell. Raises ReportError if a rank of either side cannot be read.
        """
        parsed = Metric.parse(metric)
        base = self._as_compared("base")
        new = [run._as_compared("new") for run in runs]
        if not new:
            raise SettingsError("compare needs another run", "Use base.compare(new)")
        for run in new:
            check_ranks(base.ranks, run.ranks)
        samples = [run.samples(parsed) for run in new]
        return RunComparison.of(
            compare_samples([base.samples(parsed)], samples, parsed, fail_over, spread)
        )

    def _as_compared(self, side: str) -> ComparedRun:
        path = Path(self.places[0])
        return make_compared_run(side, self.reading, path if self.is_file else path.parent)

    def _group_tables(self, by: str) -> Reading:
        """Return the reading whose tables are grouped by rank, device or stream."""
        sources = tuple(
            replace(source, scope=replace(source.scope, by=by)) for source in self.reading.sources
        )
        return replace(self.reading, sources=sources)

    def __repr__(self) -> str:
        return f"<gpu_profile.Run of {len(self.places)} reports, ranks {list(self.ranks)}>"

    def _repr_html_(self) -> str:
        """Return start-up, step time and the reports, as a notebook shows a run."""
        lines = [*self.findings().overview.to_lines(), *self.notes]
        return describe_html(lines) + _list_reports(self.reading)._repr_html_()


def _list_reports(reading: Reading) -> RunTable:
    columns = (Column("Rank"), Column("Report"))
    rows = [
        (rank, source.name)
        for source in reading.sources
        for rank in sorted(source.scope.ranks.values())
    ]
    return RunTable("reports", columns, tuple(sorted(rows)))
