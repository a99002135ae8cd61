"""compare: the runs of one program against those of another, and the gate."""

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpu_profile.analysis.compare import compare as comparison
from gpu_profile.analysis.compare import formats
from gpu_profile.analysis.compare.rank_sets import check_ranks
from gpu_profile.analysis.compare.samples import Metric
from gpu_profile.analysis.store.files.open_report import is_url
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import CompareOptions
from gpu_profile.cli.paths import output_file
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.files import write_output
from gpu_profile.printable import printable
from gpu_profile.progress import Progress
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.compared_run import ComparedRun, make_compared_run
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading, refuse_report


def compare(options: CompareOptions) -> None:
    """Compare two sides of runs.

    Raises GateError if the new side is slower than allowed, or with --require-decision if nothing
    was decided.
    """
    settings = load_settings(options)
    if not options.base or not options.new:
        raise SettingsError("compare needs two runs", "Use --base RUN --new RUN")
    form, output = options.format, _choose_output(options, settings)
    metric = Metric.parse(options.metric)
    fail_over = comparison.parse_percent(options.fail_over)
    spread = comparison.parse_percent(options.spread or settings.compare_spread, "--spread")
    base = _open_runs("base", options.base, _choose(options, options.base_window), settings)
    new = _open_runs("new", options.new, _choose(options, options.new_window), settings)
    _check_runs(base, new)
    samples = [[run.samples(metric) for run in side] for side in (base, new)]
    result = replace(
        comparison.compare_samples(samples[0], samples[1], metric, fail_over, spread),
        require_decision=options.require_decision,
    )
    if output and form == formats.HTML:
        write_output(output, render_page(result, (base[0], new[0]), (options.base, options.new)))
        print(f"{printable(str(result))}\n{output}: one file, open it in a browser")
    elif output:
        write_output(output, formats.write_comparison(result, form))
    else:
        sys.stdout.write(formats.write_comparison(result, form))
    # JSON and files do not show the sentence to whoever reads the log, so the error then holds it.
    is_told = form == formats.HTML or (not output and form in ("text", "markdown"))
    _judge(result, is_shown=is_told)


def _choose_output(options: CompareOptions, settings: Settings) -> Path | None:
    """Return the file of the result, None for stdout. Raises SettingsError for a report of a side.

    A page is for a browser: it has a file without --output too.
    """
    name = formats.file_name(options.format)
    output = output_file(options.output or (name if options.format == formats.HTML else ""), name)
    if output:
        for run_name in (*options.base, *options.new):
            refuse_report(output, _choose_reports(ReportChoice(), run_name), settings)
    return output


def render_page(
    result: comparison.Comparison,
    runs: tuple[ComparedRun, ComparedRun],
    names: tuple[Sequence[str], Sequence[str]],
) -> str:
    """Return the page of a comparison, which draws the first run of each side."""
    from gpu_profile.analysis.page.compare_sides import make_side, side_analyses
    from gpu_profile.analysis.page.compare_text import render_comparison

    analyses = side_analyses(sum(len(run.reports.sources) for run in runs))
    sides = [
        make_side(name, run.reports.of(analyses), run.reports.run.alignment.residual_ns or 0)
        for name, run in zip(("base", "new"), runs, strict=True)
    ]
    return render_comparison(result, sides, [_describe_runs(side) for side in names])


def _describe_runs(names: Sequence[str]) -> str:
    """Return "train-1", or of several "train-1 (drawn) and 2 more", without directories."""
    first = Path(names[0]).name or names[0]
    return first if len(names) == 1 else f"{first} (drawn) and {len(names) - 1} more"


def _check_runs(base: Sequence[ComparedRun], new: Sequence[ComparedRun]) -> None:
    """Raise SettingsError if a run is on both sides, ReportError if a rank is missing on one.

    Two windows of a run have files of their own, and a copy counts as another run.
    """
    for old, other in itertools.product(base, new):
        if old.identify_files() == other.identify_files():
            sides = f"{old.ranks.side} and {other.ranks.side}"
            what = f"{sides} are one run: {old.reports.sources[0].place}"
            raise SettingsError(what, "Name another one, or --base-window and --new-window")
    for run in (*base[1:], *new):
        check_ranks(base[0].ranks, run.ranks)


def _judge(result: comparison.Comparison, *, is_shown: bool) -> None:
    """Raise GateError if the gate fails; say so if nothing was decided.

    `is_shown`: the sentence of the result stands on stdout, and not here again.
    """
    if result.is_regression:
        what = "the new side is slower than allowed" if is_shown else str(result)
        hint = "The kernels that changed are in the comparison" if result.kernels.rows else ""
        raise GateError(what, hint)
    if result.fails:
        what = "the comparison is undecided" if is_shown else str(result)
        more_steps = "Record more steps in each run"
        raise GateError(what, (result.describe_need() or more_steps) if is_shown else "")
    if result.verdict == "undecided":
        note = "undecided, which passes (exit code 0); --require-decision lets it fail"
        Progress().say(f"note: {note}")


def _choose(options: CompareOptions, window: int) -> ReportChoice:
    return ReportChoice(window=window, scheduler=options.scheduler)


def _open_runs(
    side: str, run_names: Sequence[str], choice: ReportChoice, settings: Settings
) -> list[ComparedRun]:
    """Return the runs of one side, base or new. Raises SettingsError if one is named twice."""
    if len({Path(run).resolve() for run in run_names}) < len(run_names):
        raise SettingsError(f"--{side} names a run twice", "Each run counts once: name others")
    names = [side] if len(run_names) == 1 else [f"{side} ({run})" for run in run_names]
    pairs = zip(names, run_names, strict=True)
    return [_open_run(name, run, choice, settings) for name, run in pairs]


def _open_run(side: str, run_name: str, choice: ReportChoice, settings: Settings) -> ComparedRun:
    """Return a run. Raises the error of the first unreadable report: a gate needs all of them."""
    reports = open_reading(_choose_reports(choice, run_name), settings, complete=True)
    return make_compared_run(side, reports, Path(run_name))


def _choose_reports(choice: ReportChoice, run_name: str) -> ReportChoice:
    """Return the choice of a run by its path, by a report's URL, or by its id."""
    is_path = is_url(run_name) or Path(run_name).exists()
    return replace(choice, report=(run_name,)) if is_path else replace(choice, run=run_name)
