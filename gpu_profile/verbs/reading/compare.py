"""compare: one run against another, and the gate."""

import sys
from pathlib import Path

from gpu_profile.analysis.compare import compare as comparison
from gpu_profile.analysis.compare import formats as compare_text
from gpu_profile.analysis.compare.samples import Metric, RankSamples, sampling
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import output_file
from gpu_profile.cli.table import Options, Verb
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.open_run import reading


def compare(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    if not options["base"] or not options["new"]:
        raise SettingsError("compare needs two runs", "Use --base RUN --new RUN")
    form = str(options["format"])
    output = output_file(options, compare_text.file_name(form))
    metric = Metric.parse(str(options["metric"]))
    analysis = Analysis("samples", sampling(metric), _no_table)
    base, new = (
        _samples(str(options[side]), chosen, options, analysis) for side in ("base", "new")
    )
    result = comparison.merge(base, new, metric, comparison.percent(str(options["fail_over"])))
    text = compare_text.write(result, form)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    if result.regressed:
        raise GateError(str(result), "The kernels that changed are in the comparison")


def _samples(
    wanted: str, chosen: Settings, options: Options, analysis: Analysis
) -> list[RankSamples]:
    path = Path(wanted)
    named = {"report": (wanted,), "run": ""} if path.exists() else {"report": (), "run": wanted}
    answers = reading({**options, **named}, chosen).of([analysis])
    return [rank for answer in answers for rank in answer[0]]


def _no_table(_parts: object) -> Table:
    return Table("samples", (), ())
