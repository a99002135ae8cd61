"""compare: the runs of one program against those of another, and the gate."""

import sys
from pathlib import Path

from gpu_profile.analysis.compare import compare as comparison
from gpu_profile.analysis.compare import formats as compare_text
from gpu_profile.analysis.compare.rank_sets import check_ranks
from gpu_profile.analysis.compare.samples import Metric, make_sampler
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import output_file
from gpu_profile.cli.table import Options, Verb
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.files import write_output
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.compared_run import ComparedRun, make_compared_run
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


def _open_runs(side: str, chosen: Settings, options: Options) -> list[ComparedRun]:
    """Return the runs of one side, base or new. Raises SettingsError if one is named twice."""
    run_names = [str(run) for run in options[side]]
    if len({Path(run).resolve() for run in run_names}) < len(run_names):
        raise SettingsError(f"--{side} names a run twice", "Each run counts once: name others")
    names = [side] if len(run_names) == 1 else [f"{side} ({run})" for run in run_names]
    pairs = zip(names, run_names, strict=True)
    return [_open_run(name, run, chosen, options) for name, run in pairs]


def _open_run(side: str, run_name: str, chosen: Settings, options: Options) -> ComparedRun:
    """Return a run. Raises the error of the first unreadable report: a gate needs all of them."""
    path = Path(run_name)
    named = {"report": (run_name,), "run": ""} if path.exists() else {"report": (), "run": run_name}
    window = {"window": options["base_window" if side.startswith("base") else "new_window"]}
    reports = open_reading({**options, **named, **window}, chosen, complete=True)
    return make_compared_run(side, reports, path)


def _no_table(_parts: object) -> Table:
    return Table("samples", (), ())
