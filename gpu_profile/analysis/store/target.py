"""What a report says of the machine it was recorded on."""

from gpu_profile.analysis.store.database import Database


def read_hostname(database: Database) -> str:
    for name, value in database.rows("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        if name == "Hostname":
            return str(value)
    return ""
