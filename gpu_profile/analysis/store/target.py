"""Facts in a report about the machine that recorded it."""

from gpu_profile.analysis.store.cells import text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records


def read_hostname(database: Database) -> str:
    """Return the name of the machine that recorded; "" where the report does not say it."""
    rows = read_records(database, "TARGET_INFO_SYSTEM_ENV", text("name"), text("value"))
    return next((value for name, value in rows if name == "Hostname"), "")
