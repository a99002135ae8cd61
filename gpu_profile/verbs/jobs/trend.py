"""reports --trend: step, idle and exposed communication of a run's windows, one row each."""

from collections.abc import Sequence
from datetime import datetime, timezone

from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.our_tables.temporal_breakdown import TEMPORAL_BREAKDOWN
from gpu_profile.analysis.store.cells import integer_or_none
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.progress import Progress
from gpu_profile.runs.reports.validate import find_reports
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Cell, Column, Table
from gpu_profile.verbs.reading.open_run import ReportChoice, find_directory, open_reading

_COLUMNS = (
    *(Column("Window"), Column("Recorded"), Column("Ranks"), Column("Steps"), Column("Step", "ns")),
    *(Column("Idle", "%"), Column("Exposed Communication", "%")),
)
_COMMUNICATION = "Exposed Comm"
_IDLE = "Idle"


def _read_start(database: Database, _scope: Scope) -> int:
    """Return the start of a report's session in ns since 1970, 0 if it has none."""
    column = integer_or_none("utcEpochNs")
    starts = [utc for (utc,) in read_records(database, "TARGET_INFO_SESSION_START_TIME", column)]
    return int(starts[0] or 0) if starts else 0


def _merge_starts(starts: Sequence[int]) -> Table:
    return Table("start", (Column("Start", "ns"),), tuple((start,) for start in starts))


_START = Analysis("start", _read_start, _merge_starts)


def make_trend(run: str, settings: Settings) -> Table:
    """Return a row for each window of the run. Raises SettingsError for a run without windows."""
    directory = find_directory(run, settings)
    windows: dict[int, list[str]] = {}
    for report in find_reports(directory):
        if report.window:
            windows.setdefault(report.window, []).append(str(report.path))
    if not windows:
        what = f"{directory.name} has no windows"
        raise SettingsError(what, "`invoke record --job JOB --every 10m --seconds 2` records some")
    rows = [_read_window(window, windows[window], settings) for window in sorted(windows)]
    return Table("trend", _COLUMNS, tuple(rows))


def _read_window(window: int, paths: Sequence[str], settings: Settings) -> tuple[Cell, ...]:
    """Return the row of a window. One that cannot be read is named, and has an empty row."""
    try:
        reading = open_reading(ReportChoice(report=tuple(paths), notes=False), settings)
        parts = reading.of([STEP_SUM, TEMPORAL_BREAKDOWN, _START])
    except ReportError as error:
        Progress().say(f"window {window}: {error}")
        return (window, None, 0, *(None,) * 4)
    steps = STEP_SUM.merge([part[0] for part in parts])
    split = TEMPORAL_BREAKDOWN.merge([part[1] for part in parts])
    counts, medians = _get_column(steps, "Steps"), _get_column(steps, "Med")
    step = round(sum(medians) / len(medians), 1) if medians else None
    shares = [_compute_share(split, beginning) for beginning in (_IDLE, _COMMUNICATION)]
    ranks = len({row[0] for row in steps.rows} | {row[0] for row in split.rows})
    least = int(min(counts)) if counts else None
    return (window, _format_time([part[2] for part in parts]), ranks, least, step, *shares)


def _get_column(table: Table, name: str) -> list[float]:
    place = [column.name for column in table.columns].index(name)
    cells = [row[place] for row in table.rows]
    return [float(cell) for cell in cells if isinstance(cell, (int, float))]


def _compute_share(table: Table, beginning: str) -> float | None:
    """Return the share of the ranks' time, in percent, of the columns that begin so."""
    span = sum(_get_column(table, "Span"))
    names = [column.name for column in table.columns if column.name.startswith(beginning)]
    spent = sum(sum(_get_column(table, name)) for name in names)
    return round(100 * spent / span, 1) if span else None


def _format_time(starts_ns: Sequence[int]) -> str | None:
    """Return when the first rank's recording began, `2026-11-25 03:10:28+00:00`."""
    times = [start for start in starts_ns if start]
    if not times:
        return None
    began = datetime.fromtimestamp(min(times) // 10**9, timezone.utc)
    return began.isoformat(sep=" ")
