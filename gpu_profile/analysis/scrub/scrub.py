"""Write copies of reports without secrets, users, hosts and paths.

The copy is written anew, table by table, so that free pages, triggers, views and indexes of the
original are not copied, and code in a hostile file never runs. The original is only read.
"""

import gzip
import re
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gpu_profile.analysis.scrub.copy_tables import Copied, copy_tables, open_pair
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.analysis.scrub.rules import (
    KINDS,
    ReportNames,
    ScrubOptions,
    collect_names,
    list_original_names,
    make_redactor,
)
from gpu_profile.analysis.scrub.second_search import search_copy
from gpu_profile.analysis.scrub.verify import verify_copy
from gpu_profile.analysis.store.files.gzip_file import MOST_BYTES, extract_gzip
from gpu_profile.analysis.store.files.temporary import TemporaryFolder
from gpu_profile.analysis.store.sqlite.file import SQLITE_ERRORS, check_file, make_damaged_error
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.files import (
    check_no_input,
    check_target,
    explain_failure,
    find_existing,
    new_folder,
)
from gpu_profile.table import Cell, Column, Table

_COLUMNS = (
    Column("Report"),
    Column("Scrubbed"),
    Column("Tables"),
    Column("Rows"),
    Column("Left out"),
    Column("Blobs emptied"),
    Column("Size", "bytes"),
    Column("Checked"),
)
_REPORT_NAME = re.compile(
    r"(?P<rank>rank\d+)\.(?:(?:\d+\.){3}\d+|.*?)(?:\.(?P<window>\d+))?(?P<end>\.sqlite(?:\.gz)?)"
)


def make_scrub_options(
    keep: Collection[str] = (),
    also: Collection[str] = (),
    hosts: Collection[str] = (),
    users: Collection[str] = (),
    *,
    keep_blobs: bool = False,
) -> ScrubOptions:
    """The user's options, checked. `keep`: kinds (KINDS) or names of environment variables.

    `keep_blobs`: leave blobs in, redacted and searched; else those that hold more than numbers are
    emptied. `hosts`, `users`: names known from elsewhere (the run's own record).
    Raises SettingsError.
    """
    for word in keep:
        if word not in KINDS and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", word):
            kinds = ", ".join(KINDS)
            raise SettingsError(f"--keep {word} is unknown", f"Kinds are {kinds}; or a VARIABLE")
    for text in also:
        if len(text) < 3:
            raise SettingsError("--also needs at least 3 characters", "Give the whole string")
    strings = tuple(sorted(set(also)))
    return ScrubOptions(frozenset(keep), strings, keep_blobs, tuple(hosts), tuple(users))


def scrub_reports(
    reports: Sequence[Path],
    output: Path,
    options: ScrubOptions | None = None,
    notify: Callable[[str], None] = lambda line: None,
    *,
    most_bytes: int = MOST_BYTES,
) -> Table:
    """Write a scrubbed copy of each report; return a table with one row for each.

    `output` is a folder, or for one report the file itself (.sqlite or .sqlite.gz). A host has the
    same replacement in all reports of one call. A .gz may unpack to `most_bytes`. Raises
    ReportError if a report cannot be read, or if the check of a copy finds something; that copy is
    removed.
    """
    if not reports:
        raise SettingsError("no report to scrub", "Give --run or --report")
    options = options or ScrubOptions()
    descriptions = [_read_description(report, most_bytes) for report in reports]
    redactor = make_redactor(descriptions, options)
    names = list_original_names(descriptions, options)
    rows = []
    for report, target in zip(reports, _list_targets(reports, output), strict=True):
        notify(f"scrubbing {report.name}")
        copied, row = _scrub_one(report, target, options, redactor, names, most_bytes)
        for note in copied.notes:
            notify(f"note: {report.name}: {note}")
        rows.append(row)
    return Table("scrub", _COLUMNS, tuple(rows))


def _read_description(report: Path, most_bytes: int) -> ReportNames:
    with _open_plain(report, most_bytes) as plain, closing(_open_reader(plain)) as source:
        try:
            return collect_names(source)
        except SQLITE_ERRORS as error:
            raise make_damaged_error(report, error) from error


def _open_reader(plain: Path) -> sqlite3.Connection:
    reader = sqlite3.connect(f"{plain.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    reader.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return reader


def is_file(output: Path) -> bool:
    """Whether `output` names the copy itself, not a folder."""
    return output.name.endswith((".sqlite", ".sqlite.gz"))


def _list_targets(reports: Sequence[Path], output: Path) -> list[Path]:
    if is_file(output) and len(reports) > 1:
        raise SettingsError(f"{output} is one file for {len(reports)} reports", "Give a folder")
    if is_file(output):
        targets = [output]
    else:
        targets = [output / _name_copy(report.name) for report in reports]
    if len({target.name for target in targets}) < len(targets):
        targets = [
            target.with_name(f"{number}.{target.name}") for number, target in enumerate(targets)
        ]
    for target in targets:
        check_target(target)
        check_no_input(target, reports)
    return targets


def _name_copy(name: str) -> str:
    """The name without its host: `rank0.gpu7.sqlite` is `rank0.sqlite`, and the second window
    `rank0.gpu7.2.sqlite` is `rank0.host.2.sqlite`."""
    match = _REPORT_NAME.fullmatch(name)
    if not match:
        return name
    window = f".host.{match['window']}" if match["window"] else ""
    return f"{match['rank']}{window}{match['end']}"


def _scrub_one(
    report: Path,
    target: Path,
    options: ScrubOptions,
    redactor: Redactor,
    names: frozenset[str],
    most_bytes: int,
) -> tuple[Copied, tuple[Cell, ...]]:
    # The folder is made after all checks: a report that is refused leaves none.
    with new_folder(find_existing(target.parent)) as folder:
        copy = folder / "copy.sqlite"
        with _open_plain(report, most_bytes) as plain:
            copied = _copy_report(report, plain, copy, options, redactor)
        if what := verify_copy(copy, redactor) or search_copy(copy, names):
            raise ReportError(
                f"the scrubbed copy of {report} still held {what}, so it was removed",
                "Give the string with --also, or report it as a bug of gpu-profile",
            )
        size = copy.stat().st_size
        if target.suffix == ".gz":
            copy = _compress_copy(copy)
        check_target(target)
        with explain_failure(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            copy.replace(target)
    counts = copied.tables, copied.rows, copied.left_out, copied.blobs
    return copied, (report.name, str(target), *counts, size, "yes")


def _copy_report(
    report: Path, plain: Path, copy: Path, options: ScrubOptions, redactor: Redactor
) -> Copied:
    try:
        with closing(open_pair(plain, copy)) as pair:
            return copy_tables(pair, options, redactor)
    except SQLITE_ERRORS as error:
        raise make_damaged_error(report, error, copy.parents[1]) from error


@contextmanager
def _open_plain(report: Path, most_bytes: int) -> Iterator[Path]:
    """The report as an uncompressed, checked file; a .gz is unpacked into a temporary folder."""
    if report.is_dir() or not report.exists():
        what = "is a folder" if report.is_dir() else "does not exist"
        raise ReportError(f"{report} {what}", "Give a .sqlite or .sqlite.gz that nsys exported")
    if report.suffix != ".gz":
        check_file(report, report)
        yield report
        return
    with TemporaryFolder() as folder:
        plain = extract_gzip(report, Path(folder), most_bytes)
        check_file(plain, report)
        yield plain


def _compress_copy(copy: Path) -> Path:
    """Compress without file name and time, so that equal copies give equal bytes."""
    packed = copy.with_suffix(".sqlite.gz")
    with (
        copy.open("rb") as plain,
        packed.open("xb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as file,
    ):
        shutil.copyfileobj(plain, file, 1 << 20)
    return packed


__all__ = ["KINDS", "ScrubOptions", "make_scrub_options", "scrub_reports"]
