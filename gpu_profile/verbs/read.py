"""stats, diagnose, html, timeline, compare, scrub: a run's reports, read."""

import sys
from pathlib import Path

from gpu_profile import rundir
from gpu_profile.analysis import compare as comparison
from gpu_profile.analysis import compare_text, views
from gpu_profile.analysis import diagnose as findings
from gpu_profile.analysis import scrub as scrubbing
from gpu_profile.analysis import timeline as trace
from gpu_profile.analysis.analysis import Analysis
from gpu_profile.analysis.nsys_tables import ANALYSES
from gpu_profile.analysis.ours import OURS
from gpu_profile.analysis.page import write_page
from gpu_profile.analysis.samples import Metric, RankSamples, sampling
from gpu_profile.analysis.table import Table
from gpu_profile.errors import GateError, SettingsError
from gpu_profile.progress import Progress
from gpu_profile.settings import Settings
from gpu_profile.verbs import Options, Verb
from gpu_profile.verbs.common import load_settings, nearest, show
from gpu_profile.verbs.reading import directory, find, reading

_KNOWN = {**ANALYSES, **OURS}
DEFAULT_TABLES = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum", "osrt_sum")


def stats(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    by = str(options["by"])
    wanted = _tables(str(options["table"]))
    for analysis in wanted:
        views.check_by(by, analysis.by, analysis.name)
    answers = reading(options, chosen, by=by).of(wanted)
    tables = [
        analysis.merge([answer[index] for answer in answers])
        for index, analysis in enumerate(wanted)
    ]
    if not options["table"] and options["format"] == "text":
        tables = [table for table in tables if table.rows] or tables
    show([_view(table, options) for table in tables], str(options["format"]))


def _tables(names: str) -> tuple[Analysis, ...]:
    return tuple(
        _KNOWN.get(name) or nearest("--table", name, _KNOWN)
        for name in (names.split(",") if names else DEFAULT_TABLES)
    )


def _view(table: Table, options: Options) -> Table:
    if options["filter"]:
        table = views.filtered(table, str(options["filter"]))
    return views.top(table, options["top"], str(options["by"])) if options["top"] else table


def diagnose(verb: Verb, options: Options) -> None:
    read = reading(options, load_settings(verb, options))
    answers = read.of([findings.FINDINGS])
    diagnosis = findings.merge(
        [answer[0] for answer in answers], read.run.alignment.residual_ns or 0
    )
    form = str(options["format"])
    if form == "json":
        print(diagnosis.to_json())
    elif form == "csv":
        show([diagnosis.to_table()], form)
    else:
        print(diagnosis.to_text())


def html(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    read = reading(options, chosen)
    output = _output(options, chosen, "page.html")
    known = {} if options["report"] else _facts(directory(options, chosen))
    summary = write_page(
        read.sources,
        output,
        title=known.get("run", "GPU profile"),
        known=known,
        clock_error_ns=read.run.alignment.residual_ns or 0,
        scheduler=read.scheduler,
        tell=Progress().say,
    )
    show([summary], "text")
    print(f"{output}: one file, open it in a browser")


def _facts(place: Path) -> dict[str, str]:
    """What run.json says, for the page: nothing of the machine, its users or paths."""
    run = rundir.load(place)
    facts = {"run": run.id, "launcher": run.launcher, "command": " ".join(run.command)}
    facts |= {"nsys": " ".join(run.nsys), "started": run.started_at}
    cost = run.baseline.get("ratio")
    return facts | ({"cost of the profile": f"{cost:.3f}x"} if cost else {})


def timeline(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    read = reading(options, chosen)
    output = _output(options, chosen, "timeline.perfetto-trace.gz")
    pairs = [(source.place, source.scope) for source in read.sources]
    show([trace.timeline(pairs, output, tell=Progress().say)], "text")
    print(f"{output}: open it in Perfetto's UI (ui.perfetto.dev reads it in your browser)")


def compare(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    if not options["base"] or not options["new"]:
        raise SettingsError("compare needs two runs", "Use --base RUN --new RUN")
    metric = Metric.parse(str(options["metric"]))
    analysis = Analysis("samples", sampling(metric), _no_table)
    base, new = (
        _samples(str(options[side]), chosen, options, analysis) for side in ("base", "new")
    )
    result = comparison.merge(base, new, metric, comparison.percent(str(options["fail_over"])))
    text = compare_text.write(result, str(options["format"]))
    if options["output"]:
        Path(str(options["output"])).write_text(text, encoding="utf-8")
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


def scrub(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    reports = [path for path in find(options, chosen) if path.suffix != ".nsys-rep"]
    wish = scrubbing.wish_of(keep=options["keep"], also=options["also"])
    output = Path(str(options["output"]) or "scrubbed")
    show([scrubbing.scrub(reports, output, wish, Progress().say)], "text")


def _output(options: Options, chosen: Settings, name: str) -> Path:
    """--output, or a file in the run's directory (here, for reports of no run)."""
    if options["output"]:
        return Path(str(options["output"]))
    return Path(name) if options["report"] else directory(options, chosen) / name
