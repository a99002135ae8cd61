"""Find the reports of a run directory and check their ranks and events."""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import files
from gpu_profile.errors import ReportError
from gpu_profile.runs.record import OUTPUT_FILE, ReportSummary
from gpu_profile.runs.reports.report_files import strip_suffix
from gpu_profile.runs.step_times import STEP, read_step_times

# The window's number is last: rank0.node1.2.nsys-rep. The host may be an IPv4 address.
_FILE = re.compile(
    r"rank(?P<rank>\d+)\.(?P<host>\d+(?:\.\d+){3}|.+?)(?:\.(?P<window>\d+))?"
    r"\.(?:nsys-rep|pt\.trace\.json\.gz)"
)
_FULL = "No space left on device"
# `kubectl logs --prefix` writes `[pod/train-1-master-0/pytorch] ` before each line.
_RECORDING = re.compile(r"^(?:\[\S+\])?\s*(/\S+\.qdstrm)\s*$", re.MULTILINE)
"""A line of nsys after `Generated:`, if its importer failed."""
_MISSED = re.compile(
    r"(?:nsys|torch\.profiler) wrote no report: (--steps \d+:\d+: it "
    r"(?:made no step of PyTorch that could be counted|ended after \d+ steps))$",
    re.MULTILINE,
)
"""profile.py's words on a program that ended before its window (annotated_env.py)."""
_LOST = re.compile(r"^.*profile\.py: rank (\d{1,6}): \S+ wrote no report", re.MULTILINE)
"""Its words on a rank that may be one more than the run was known to have."""
_UNSEEN = re.compile(r"^.*gpu-profile: ((?:\S+: )?no rank was seen\b.*)$", re.MULTILINE)
_TAIL = 1 << 16  # bytes at the end of output.log that are searched
_KIND_TABLES: Mapping[str, tuple[str, ...]] = {
    "cuda": (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    ),
    "nvtx": ("NVTX_EVENTS",),
    "osrt": ("OSRT_API",),
    "mpi": (
        "MPI_COLLECTIVES_EVENTS",
        "MPI_P2P_EVENTS",
        "MPI_START_WAIT_EVENTS",
        "MPI_OTHER_EVENTS",
    ),
}
KINDS = frozenset(_KIND_TABLES)
"""The kinds of events that can be counted: cuda, nvtx, osrt, mpi."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report file. `window` counts from 1 if nsys recorded several (repeat:N), otherwise 0."""

    path: Path
    rank: int
    host: str
    window: int = 0

    @property
    def sqlite(self) -> Path:
        return self.path.with_name(f"{strip_suffix(self.path)}.sqlite")


def find_reports(directory: Path) -> tuple[Report, ...]:
    """Return the reports of a run directory by rank and window.

    Symbolic links, which a job may leave there, are skipped.
    """
    files = (path for path in directory.iterdir() if path.is_file() and not path.is_symlink())
    matches = ((path, _FILE.fullmatch(path.name)) for path in files)
    name_matches = (
        Report(
            path=path,
            rank=int(match["rank"]),
            host=match["host"],
            window=int(match["window"] or 0),
        )
        for path, match in matches
        if match
    )
    return tuple(sorted(name_matches, key=lambda report: (report.rank, report.host, report.window)))


def summarise_report(report: Report) -> ReportSummary:
    """Return the facts of a report that has its export. Raises ReportError if it is damaged."""
    # numpy, which `status`, `logs`, `stop` and `reports` do not need, takes 0.1 s
    from gpu_profile.analysis.store.database import Database

    with Database.open(report.sqlite) as database:
        events = count_events(database.event_counts())
    times = read_step_times(report.path)
    first_step, step_ms = times.excerpt() if times else (0, ())
    control = times.find_control() if times else None
    return ReportSummary(
        recorded_steps=times.recorded_steps if times else (),
        first_step=first_step,
        step_ms=step_ms,
        step_unit=times.unit if times else STEP,
        control=dataclasses.asdict(control) if control else {},
        file=report.path.name,
        rank=report.rank,
        host=report.host,
        bytes=report.path.stat().st_size,
        events=events,
        window=report.window,
    )


def count_events(rows_by_table: Mapping[str, int]) -> dict[str, int]:
    """Return the number of events of each kind from the rows of an export's tables."""
    return {
        kind: sum(rows_by_table.get(table, 0) for table in tables)
        for kind, tables in _KIND_TABLES.items()
    }


def check_events(report: Report, events: Mapping[str, int], expected: Iterable[str]) -> None:
    """Raise ReportError, with the likely cause, if an expected kind has no event."""
    missing = [kind for kind in expected if not events.get(kind)]
    if missing:
        raise ReportError(
            f"{report.path} holds no {' and no '.join(missing)} events", _CAUSES[missing[0]]
        )


_CAUSES: Mapping[str, str] = {
    "cuda": "The job never started CUDA in the recorded window, a capture range was not reached,"
    " or another CUPTI user (torch.profiler) ran. On Blackwell try --trace cuda-sw,nvtx",
    "nvtx": "The program marked no NVTX range in the recorded window",
    "osrt": "The program made no long system call in the recorded window",
    "mpi": "The program called no MPI in the recorded window",
}


def has_recordings(directory: Path) -> bool:
    """Return whether a rank left a report, or a .qdstrm that no importer made a report of."""
    kinds = ("nsys-rep", "qdstrm", "pt.trace.json.gz")
    return any(any(directory.glob(f"rank*.{kind}")) for kind in kinds)


def check_ranks(reports: Iterable[Report], expected: Iterable[int], directory: Path) -> None:
    """Raise ReportError if a chosen rank left no report; it names a .qdstrm if that is there."""
    log = _read_tail(directory / OUTPUT_FILE)
    lost_there = map(int, _LOST.findall(log))
    # More ranks than were known can have started, as of torchrun in a script of the user's.
    missing = sorted({*expected, *lost_there} - {report.rank for report in reports})
    if not missing:
        return
    unfinished = sorted(path.name for path in directory.glob("*.qdstrm"))
    begun = [rank for rank in missing if any(n.startswith(f"rank{rank}.") for n in unfinished)]
    lost = ", ".join(str(rank) for rank in missing if rank not in begun)
    what = f"no report of rank {lost} in {directory}"
    if begun:
        ranks, names = ", ".join(map(str, begun)), ", ".join(unfinished)
        raise ReportError(
            f"rank {ranks} left a recording that was not imported: {names}"
            + (f"; {what}" if lost else ""),
            f"An nsys with its importer reads it: `nsys import` or QdstrmImporter, in {directory}",
        )
    if _FULL in log:
        recordings = _RECORDING.findall(log)
        hint = "Make room, and run it again"
        if recordings:
            hint += f"; nsys left its recording in {recordings[-1]}, in the job, which is kept"
        raise ReportError(f"{what}: a disk was full ({_FULL})", hint)
    if why := _MISSED.findall(log):
        raise ReportError(f"{what}: {why[-1]}", "Choose --steps among those that the program makes")
    if why := _UNSEEN.findall(log):
        raise ReportError(f"{what}: {why[-1]}", f"See {directory / OUTPUT_FILE}")
    raise ReportError(what, f"See {directory / OUTPUT_FILE} for the profiler's own words")


def _read_tail(log: Path) -> str:
    try:
        with files.open_regular(log) as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            return file.read().decode(errors="replace")
    except (OSError, ReportError):
        return ""
