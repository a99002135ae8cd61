"""compare: the runs of one program against those of another, and the gate."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.analysis.compare import compare as comparison
from gpu_profile.analysis.compare import formats as compare_text
from gpu_profile.analysis.compare.rank_sets import SideRanks, check_ranks
from gpu_profile.analysis.compare.samples import Metric, RankSamples, make_sampler
from gpu_profile.analysis.multi_report.ranks import FILE_RANK
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import output_file
from gpu_profile.cli.table import Options, Verb
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.files import write_output
from gpu_profile.runs import record as rundir
from gpu_profile.runs.open_reports import Reading
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.open_run import open_reading


def compare(verb: Verb, options: Options) -> None:
    """Compare two sides of runs. Raises GateError if the new side is slower than allowed."""
    chosen = load_settings(verb, options)
    if not options["base"] or not options["new"]:
        raise SettingsError("compare needs two runs", "Use --base RUN --new RUN")
    form = str(options["format"])
    output = output_file(options, compare_text.file_name(form))
    metric = Metric.parse(str(options["metric"]))
    analysis = Analysis("samples", make_sampler(metric), _no_table)
    fail_over = comparison.parse_percent(str(options["fail_over"]))
    spread = comparison.parse_percent(str(options["spread"]), "--spread")
    base, new = (_open_runs(side, chosen, options) for side in ("base", "new"))
    for run in (*base[1:], *new):
        check_ranks(base[0].ranks, run.ranks)
    samples = [[run.samples(analysis) for run in side] for side in (base, new)]
    result = comparison.compare_samples(samples[0], samples[1], metric, fail_over, spread)
    text = compare_text.write_comparison(result, form)
    if output:
        write_output(output, text)
    else:
        sys.stdout.write(text)
    if result.regressed:
        raise GateError(str(result), "The kernels that changed are in the comparison")


@dataclass(frozen=True)
class _Run:
    """One run of a side: its reports, which must all be readable, and their ranks."""

    reports: Reading
    ranks: SideRanks

    def samples(self, analysis: Analysis) -> list[RankSamples]:
        return [rank for answer in self.reports.of([analysis]) for rank in answer[0]]


def _open_runs(side: str, chosen: Settings, options: Options) -> list[_Run]:
    """Return the runs of one side, base or new. Raises SettingsError if one is named twice."""
    run_names = [str(run) for run in options[side]]
    if len({Path(run).resolve() for run in run_names}) < len(run_names):
        raise SettingsError(f"--{side} names a run twice", "Each run counts once: name others")
    names = [side] if len(run_names) == 1 else [f"{side} ({run})" for run in run_names]
    pairs = zip(names, run_names, strict=True)
    return [_open_run(name, run, chosen, options) for name, run in pairs]


def _open_run(side: str, run_name: str, chosen: Settings, options: Options) -> _Run:
    """Return a run. Raises the error of the first unreadable report: a gate needs all of them."""
    path = Path(run_name)
    named = {"report": (run_name,), "run": ""} if path.exists() else {"report": (), "run": run_name}
    window = {"window": options["base_window" if side.startswith("base") else "new_window"]}
    reports = open_reading({**options, **named, **window}, chosen, complete=True)
    ranks = reports.run.ranks
    present = frozenset(rank for by_pid in ranks.by_report for rank in by_pid.values())
    if path.is_file():
        return _Run(reports, SideRanks(side, present, frozenset(ranks.missing), is_file=True))
    recorded = _recorded_ranks(Path(reports.sources[0].place).parent)
    missing = recorded - _ranks_of_files(reports.sources) if recorded else frozenset(ranks.missing)
    return _Run(reports, SideRanks(side, present, missing, bool(recorded or ranks.world)))


def _recorded_ranks(directory: Path) -> frozenset[int]:
    """Return the ranks that should have left a report, from run.json; none without it."""
    if not (directory / rundir.RUN_FILE).is_file():
        return frozenset()
    return frozenset(rundir.load_run(directory).ranks)


def _ranks_of_files(sources: Sequence[ReportSource]) -> frozenset[int]:
    """Return the ranks in the reports' names: 2 for rank2.node1.sqlite."""
    matches = (FILE_RANK.search(source.name) for source in sources)
    return frozenset(int(match[1]) for match in matches if match)


def _no_table(_parts: object) -> Table:
    return Table("samples", (), ())
