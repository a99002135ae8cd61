"""All that a user reads of a report: columns as sqlite3 has them, every table, findings, the page.

On a report of 0.4 MB the columns take 0.02 s, the thirty tables 0.08 s, the page 0.05 s.
"""

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

import numpy as np

from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.multi_report.work import ReportSource, Work
from gpu_profile.analysis.page import page_analyses, write_page
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.errors import GpuProfileError
from gpu_profile.runs.reports.open_reports import open_reports
from tests.fuzz.child import Outcome

COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        *("start", "end", "deviceId", "streamId", "shortName", "demangledName"),
        *("correlationId", "gridX"),
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "bytes", "copyKind", "deviceId"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "bytes", "value", "deviceId"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start", "end", "graphId", "deviceId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "globalTid"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "streamId"),
    "OSRT_API": ("start", "end", "nameId", "globalTid"),
}
"""Columns of whole numbers, by table, that are compared with sqlite3's."""

ANALYSED = (*chain(*page_analyses(1)), *dict.fromkeys((*ANALYSES.values(), *OURS.values())))
"""All that is read of one report: the parts of the page, the findings, and each table."""

NO_MEMORY = "does not fit into memory"
UNWORKABLE = "holds values that could not be worked with"


def expected(path: Path, table: str) -> list[tuple[object, ...]] | str:
    """What sqlite3 reads, or its error."""
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    uri = f"file:{path}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as database:
            database.text_factory = bytes
            return database.execute(
                f"SELECT {names} FROM {table} NOT INDEXED ORDER BY rowid"
            ).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:  # the second: its text quotes bytes
        return f"sqlite3: {error}"


def compare_table(path: Path, database: Database, table: str) -> Outcome:
    """One table: ours against sqlite3's."""
    try:
        if not database.has(table):
            missing = isinstance(expected(path, table), str)
            return Outcome("absent" if missing else "ABSENT though sqlite3 reads it", table)
        ours = database.load(table, *COLUMNS[table], sort=False)
    except GpuProfileError as error:
        return judge_refusal(error)
    theirs = expected(path, table)
    if isinstance(theirs, str):
        return Outcome("ACCEPTED what sqlite3 calls malformed", f"{table}: {theirs}")
    return same_numbers(ours, COLUMNS[table], theirs)


def same_numbers(
    ours: dict[str, "np.ndarray"], names: Sequence[str], rows: Sequence[Sequence[object]]
) -> Outcome:
    """Whether columns hold what sqlite3's rows do; NULL is MISSING."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    for name, cells in zip(names, columns, strict=True):
        numbers = ours[name].tolist()
        if numbers == list(cells):
            continue
        if any(isinstance(cell, str | bytes) for cell in cells):
            return Outcome("TEXT accepted as numbers", name)
        if numbers != [MISSING if cell is None else cell for cell in cells]:
            return Outcome("WRONG numbers", f"{name}: {len(numbers)} of {len(cells)} rows")
    return Outcome("same")


def judge_refusal(error: GpuProfileError) -> Outcome:
    """ "refused" for one line; "unworkable" for the line that names a place of our code."""
    text = str(error)
    if not text or not text.isprintable():
        return Outcome("LINES", repr(text))
    if NO_MEMORY in text:
        return Outcome("MEMORY", text)
    return Outcome("unworkable" if UNWORKABLE in text else "refused", text)


def check(path: Path, analyses: Sequence[Analysis] = ANALYSED, page: bool = True) -> Outcome:
    """The worst that any column, any of these analyses, or the page makes of the report."""
    columns = [*_compare_columns(path), _analyse(path, analyses)]
    outcomes = [*columns, _write_page(path)] if page else columns
    worst = [outcome for outcome in outcomes if outcome.is_defect]
    refused = [outcome for outcome in outcomes if outcome.label in ("unworkable", "refused")]
    return (worst or refused or outcomes)[0]


def _compare_columns(path: Path) -> Iterator[Outcome]:
    try:
        with Database.open(path) as database:
            for table in COLUMNS:
                yield compare_table(path, database, table)
    except GpuProfileError as error:
        yield judge_refusal(error)


def _analyse(path: Path, analyses: Sequence[Analysis]) -> Outcome:
    """Tables, merged as `stats` does, and parts of the page and of findings."""
    answer = Work(ReportSource(str(path)), tuple(analyses)).do()
    if isinstance(answer, GpuProfileError):
        return judge_refusal(answer)
    for analysis, part in zip(analyses, answer, strict=True):
        analysis.merge([part])
    return Outcome("same")


def _write_page(path: Path) -> Outcome:
    """The page with its findings and tables, as `html` writes it."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            read = open_reports([ReportSource(str(path))], notify=lines.append)
            page = Path(folder) / "page.html"
            diagnoses: list[Diagnosis] = []
            write_page(read.sources, page, notify=lines.append, tell_findings=diagnoses.append)
            lines += [line for diagnosis in diagnoses for line in diagnosis.to_text().splitlines()]
        except GpuProfileError as error:
            return judge_refusal(error)
    control = [line for line in lines if not line.isprintable()]
    return Outcome("CONTROL characters", repr(control)) if control else Outcome("same")
