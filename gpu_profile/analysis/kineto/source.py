"""What a reader must know of a report that is the export of a trace of torch.profiler."""

from gpu_profile.analysis.store.database import Database

SOURCE = ("SOURCE", "torch.profiler")
"""The row of META_DATA_EXPORT that marks such an export."""
NOTE = (
    "a trace of torch.profiler holds no system calls and no waits between streams: what needs them "
    "is not judged"
)


def describe_source(database: Database) -> tuple[str, ...]:
    """Return the note on such an export; none on nsys' own."""
    return (NOTE,) if database.export_facts.get(SOURCE[0]) == SOURCE[1] else ()
