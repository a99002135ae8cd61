"""Facts in a report about the machine that recorded it."""

from gpu_profile.analysis.store.database import Database


def read_hostname(database: Database) -> str:
    for name, value in database.rows("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        if name == "Hostname":
            return str(value)
    return ""
