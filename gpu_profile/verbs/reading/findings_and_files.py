"""diagnose, html, timeline, scrub: findings and files from a run's reports."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.analysis.findings import diagnose as findings
from gpu_profile.analysis.multi_report.parallel import prepare_workers
from gpu_profile.analysis.scrub import scrub as scrubbing
from gpu_profile.analysis.timeline import timeline as perfetto_timeline
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.paths import make_folder, output_file
from gpu_profile.cli.table import Options, Verb
from gpu_profile.cli.terminal import print_tables
from gpu_profile.errors import SettingsError
from gpu_profile.files import check_target
from gpu_profile.progress import Progress
from gpu_profile.runs import baseline, owner
from gpu_profile.runs import record as rundir
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.open_run import (
    find_directory,
    find_report_files,
    open_reading,
    readable_file,
)


def diagnose(verb: Verb, options: Options) -> None:
    """Print the findings in a run's reports."""
    chosen = load_settings(verb, options)
    read = open_reading(options, chosen)
    answers = read.of([findings.FINDINGS])
    diagnosis = findings.judge_run(
        [answer[0] for answer in answers], read.run.alignment.residual_ns or 0
    ).with_cost(_cost(options, chosen))
    form = str(options["format"])
    if form == "json":
        print(diagnosis.to_json())
    elif form == "text":
        print("\n".join((*diagnosis.overview.to_lines(), diagnosis.to_text())))
    else:
        print_tables([diagnosis.to_table()], form)


def html(verb: Verb, options: Options) -> None:
    """Write the page of a run's reports."""
    if len(options["report"]) != 1 and not options["scheduler"]:
        prepare_workers()
    chosen = load_settings(verb, options)
    output = _resolve_output(options, chosen, "page.html")
    summary = save_page(options, chosen, output)
    print_tables([summary], "text")
    print(f"{output}: one file, open it in a browser")


def save_page(
    options: Options,
    chosen: Settings,
    output: Path,
    tell_findings: Callable[[findings.Diagnosis], None] = lambda diagnosis: None,
) -> Table:
    """Read the reports of --run or --report and write their page (see page.write_page)."""
    from gpu_profile.analysis.page import write_page  # slow import, only for the page

    read = open_reading(options, chosen)
    facts = {} if options["report"] else _read_run_facts(find_directory(options, chosen))
    return write_page(
        read.sources,
        output,
        title=facts.get("run", "GPU profile"),
        known=facts,
        clock_error_ns=read.run.alignment.residual_ns or 0,
        scheduler=read.scheduler,
        tell=Progress().say,
        tell_findings=tell_findings,
        cost=_cost(options, chosen),
    )


def _cost(options: Options, chosen: Settings) -> str:
    """Return a line on what tracing cost the run, if --baseline measured it."""
    if options["report"]:
        return ""
    return baseline.describe_cost(rundir.load_run(find_directory(options, chosen)).baseline)


def _read_run_facts(place: Path) -> dict[str, str]:
    """Return facts of run.json for the page, without the machine, its users and paths."""
    run = rundir.load_run(place)
    facts = {"run": run.id, "launcher": run.launcher, "command": " ".join(run.command)}
    facts |= {"nsys": " ".join(run.nsys), "started": run.started_at}
    cost = run.baseline.get("ratio")
    return facts | ({"cost of the profile": f"{cost:.3f}x"} if cost else {})


def timeline(verb: Verb, options: Options) -> None:
    """Write a Perfetto trace of a run's reports."""
    chosen = load_settings(verb, options)
    output = _resolve_output(options, chosen, "timeline.perfetto-trace.gz")
    read = open_reading(options, chosen)
    pairs = [(source.place, source.scope) for source in read.sources]
    limit = read.sources[0].most_bytes
    print_tables(
        [perfetto_timeline.write_timeline(pairs, output, tell=Progress().say, most_bytes=limit)],
        "text",
    )
    print(f"{output}: open it in Perfetto's UI (ui.perfetto.dev reads it in your browser)")


def scrub(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    reports = [readable_file(path, chosen) for path in find_report_files(options, chosen)]
    wish = scrubbing.wish_of(keep=options["keep"], also=options["also"])
    output = Path(str(options["output"]) or "scrubbed")
    make_folder(output.parent if scrubbing.is_file(output) else output)
    table = scrubbing.scrub_reports(
        reports, output, wish, Progress().say, most_bytes=int(chosen.unpack_limit_gb) * 10**9
    )
    print_tables([table], "text")


def _resolve_output(options: Options, chosen: Settings, name: str) -> Path:
    """Return --output, or a file in the run's directory (here, for reports of no run).

    Raises SettingsError for a device or a FIFO, and for another user's run without --output.
    """
    if path := output_file(options, name):
        check_target(path)
        return path
    if options["report"]:
        return Path(name)
    place = find_directory(options, chosen)
    if not owner.is_own(place, place / rundir.RUN_FILE):
        what = f"{place} is a run of {owner.owner_name(place)}, where nothing is written"
        raise SettingsError(what, "Name a place of yours by --output")
    return place / name
