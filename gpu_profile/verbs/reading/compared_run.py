"""One run of a comparison: its reports, which must all be readable, and their ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpu_profile.analysis.compare.rank_sets import SideRanks
from gpu_profile.analysis.compare.samples import Metric, RankSamples, make_sampler
from gpu_profile.analysis.multi_report.ranks import FILE_RANK
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.open_report import is_url
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import ReportError
from gpu_profile.runs import record
from gpu_profile.runs.reports.open_reports import Reading
from gpu_profile.table import Table


@dataclass(frozen=True)
class ComparedRun:
    """One run of a side: its reports, which must all be readable, and their ranks."""

    reports: Reading
    ranks: SideRanks

    def identify_files(self) -> frozenset[object]:
        """Return what tells the reports from other files: device and inode, or their URLs."""
        return frozenset(_identify_file(source.place) for source in self.reports.sources)

    def samples(self, metric: Metric) -> list[RankSamples]:
        """Return the samples of each rank. Raises the error of the first unreadable report."""
        return self.collect(make_sampler(metric))[0]

    def collect(self, *partials: Callable[[Database, Scope], list[Any]]) -> list[list[Any]]:
        """Return what each function finds in the reports, which are read once for all of them.

        Raises the error of the first unreadable report.
        """
        analyses = [Analysis("samples", partial, _merge_no_table) for partial in partials]
        answers = self.reports.of(analyses)
        return [[part for answer in answers for part in answer[at]] for at in range(len(partials))]


def _identify_file(place: str) -> object:
    if is_url(place):
        return place
    status = Path(place).stat()
    return status.st_dev, status.st_ino


def _merge_no_table(_parts: object) -> Table:
    return Table("samples", (), ())


def make_compared_run(side: str, reports: Reading, path: Path) -> ComparedRun:
    """Return a run of `side` (base or new); `path` is what was named, a report or a directory.

    Raises ReportError if a report was left out before: a gate must not pass on the others.
    """
    if len(reports.sources) < reports.count and not reports.complete:
        unread = reports.count - len(reports.sources)
        what = f"{unread} of {reports.count} reports of the {side} run cannot be read"
        raise ReportError(what, "A comparison needs all ranks of both runs")
    reports = replace(reports, complete=True)
    ranks = reports.run.ranks
    present = frozenset(rank for by_pid in ranks.by_report for rank in by_pid.values())
    if path.is_file():
        side_ranks = SideRanks(side, present, frozenset(ranks.missing), is_file=True)
        return ComparedRun(reports, side_ranks)
    expected = _list_recorded_ranks(Path(reports.sources[0].place).parent)
    missing = (
        expected - _list_ranks_of_files(reports.sources) if expected else frozenset(ranks.missing)
    )
    return ComparedRun(reports, SideRanks(side, present, missing, bool(expected or ranks.world)))


def _list_recorded_ranks(directory: Path) -> frozenset[int]:
    """Return the ranks that should have left a report, from run.json; none without it."""
    if not (directory / record.RUN_FILE).is_file():
        return frozenset()
    return frozenset(record.load_run(directory).ranks)


def _list_ranks_of_files(sources: Sequence[ReportSource]) -> frozenset[int]:
    """Return the ranks in the reports' names: 2 for rank2.node1.sqlite."""
    matches = (FILE_RANK.search(source.name) for source in sources)
    return frozenset(int(match[1]) for match in matches if match)
