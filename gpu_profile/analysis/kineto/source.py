"""What a reader must know of a report that is the export of a trace of torch.profiler."""

from pathlib import Path

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import CUDA_EVENT
from gpu_profile.errors import ReportError

SOURCE = ("SOURCE", "torch.profiler")
"""The row of META_DATA_EXPORT that marks such an export."""
_LACKS = "a trace of torch.profiler holds no system calls{}: what needs them is not judged"


def is_of_trace(export: Path) -> bool:
    """Return whether a file is such an export."""
    try:
        with Database.open(export) as database:
            return database.export_facts.get(SOURCE[0]) == SOURCE[1]
    except ReportError:
        return False


def describe_source(database: Database) -> tuple[str, ...]:
    """Return the note on such an export; none on nsys' own."""
    if database.export_facts.get(SOURCE[0]) != SOURCE[1]:
        return ()
    has_waits = database.has(CUDA_EVENT, "eventSyncId")
    return (_LACKS.format("" if has_waits else " and no waits between streams"),)
