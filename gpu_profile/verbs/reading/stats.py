"""stats: nsys' tables and ours. Imports little, because most of a table's time is start-up."""

from dataclasses import replace

from gpu_profile.analysis.tables import views
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.cli.flags import load_settings, refuse_unknown
from gpu_profile.cli.options.reading import StatsOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.errors import SettingsError
from gpu_profile.table import Column, Table
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading

DEFAULT_TABLES = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum", "osrt_sum")


def stats(options: StatsOptions) -> None:
    """Print tables of a run's reports, or with --list the names of all tables."""
    if options.list:
        print_tables([list_tables()], options.format)
        return
    settings = load_settings(options)
    analyses = _find_tables(options.table)
    for analysis in analyses:
        views.check_by(options.by, analysis.by, analysis.name)
    if options.between and not any(analysis.is_of_part for analysis in analyses):
        what = "--between is for a table of single events"
        raise SettingsError(what, "Use --table event_trace")
    choice = replace(ReportChoice.from_options(options), notes=options.notes)
    reading = open_reading(choice, settings, by=options.by).at_depth(options.depth)
    if options.between:
        reading = reading.limited_to(*views.parse_interval(options.between))
    answers = reading.of(analyses)
    tables = [
        analysis.merge([answer[index] for answer in answers])
        for index, analysis in enumerate(analyses)
    ]
    if not options.table and options.format == "text":
        tables = [table for table in tables if table.rows] or tables
    shown = [_select_view(table, options) for table in tables]
    print_tables(shown, options.format, options.names)


def list_tables() -> Table:
    """Return all tables with one line each: nsys' own, then ours."""
    rows = [
        (name, of, analysis.doc)
        for of, analyses in (("nsys", ANALYSES), ("gpu-profile", OURS))
        for name, analysis in analyses.items()
    ]
    return Table("tables", (Column("Table"), Column("Of"), Column("Shows")), tuple(rows))


def _find_tables(names: str) -> tuple[Analysis, ...]:
    return tuple(
        ANALYSES.get(name) or OURS.get(name) or refuse_unknown("--table", name, (*ANALYSES, *OURS))
        for name in (names.split(",") if names else DEFAULT_TABLES)
    )


def _select_view(table: Table, options: StatsOptions) -> Table:
    if options.filter:
        table = views.filter_rows(table, options.filter)
    return views.select_top(table, options.top, options.by) if options.top else table
