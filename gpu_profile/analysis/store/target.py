"""Facts in a report about the machine that recorded it."""

from gpu_profile.analysis.store.cells import integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records


def read_hostname(database: Database) -> str:
    """Return the name of the machine that recorded; "" where the report does not say it."""
    rows = read_records(database, "TARGET_INFO_SYSTEM_ENV", text("name"), text("value"))
    return next((value for name, value in rows if name == "Hostname"), "")


def count_multiprocessors(database: Database, gpu: str) -> int:
    """How many multiprocessors a GPU of this model has; 0 where the report does not say it."""
    columns = text("name"), integer_or_none("smCount?")
    counts = dict(read_records(database, "TARGET_INFO_GPU", *columns))
    return max(counts.get(gpu) or 0, 0)
