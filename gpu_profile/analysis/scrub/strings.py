"""Find the strings and processes of a report that belong to the profiled programs.

nsys also records the names, and in some versions the environments, of all other processes of the
machine. Its strings are in one table, and many of them are not used by any row.
"""

import re
import sqlite3

from gpu_profile.analysis.scrub.rules import OUTPUT_TABLES, ScrubOptions

MACHINE = {"PROCESSES": "globalPid", "ThreadNames": "globalTid"}
_NO_EVENTS = (*MACHINE, *OUTPUT_TABLES, "DIAGNOSTIC_EVENT")
_PROCESS_MASK = ~0xFFFFFF  # the low 24 bits of a globalTid are the thread
# Comments in nsys' CREATE TABLE statements mark the columns that hold ids of strings.
_REFERS = re.compile(r"^\s*\"?(\w+)\"?\s.*REFERENCES\s+StringIds", re.MULTILINE)
_KNOWN_WORDS = "nameId textId jsonTextId demangledName shortName mangledName symbol module"
_KNOWN = frozenset((*_KNOWN_WORDS.split(), "filenameId", "contentId"))

Columns = dict[str, set[str]]


def collect_strings(pair: sqlite3.Connection, columns: Columns, options: ScrubOptions) -> None:
    """Fill temp.own with the processes that have events, and temp.kept with the strings to keep."""
    pair.execute("CREATE TEMP TABLE own (id INTEGER PRIMARY KEY)")
    pair.execute("CREATE TEMP TABLE kept (id INTEGER PRIMARY KEY)")
    for table, names in columns.items():
        if table not in _NO_EVENTS:
            for name in sorted(names & {"globalTid", "globalPid"}):
                query = f'SELECT DISTINCT "{name}" & {_PROCESS_MASK} FROM source."{table}"'
                pair.execute(f'INSERT OR IGNORE INTO temp.own {query} WHERE "{name}" NOTNULL')
    for table, names in columns.items():
        for name in sorted(_find_string_columns(pair, table) & names):
            rows = f'FROM source."{table}"{make_condition(table, options, names)}'
            pair.execute(f'INSERT OR IGNORE INTO temp.kept SELECT DISTINCT "{name}" {rows}')
    for table in OUTPUT_TABLES:
        if "contentId" in columns.get(table, ()) and options.drops("output"):
            output = f'SELECT "contentId" FROM source."{table}"'
            pair.execute(f"DELETE FROM temp.kept WHERE id IN ({output})")


def make_condition(table: str, options: ScrubOptions, columns: set[str]) -> str:
    """The SQL condition for the rows to keep: processes and threads only if they have events."""
    column = MACHINE.get(table)
    if column not in columns or not options.drops("processes"):
        return ""
    return f' WHERE "{column}" & {_PROCESS_MASK} IN (SELECT id FROM temp.own)'


def _find_string_columns(pair: sqlite3.Connection, table: str) -> frozenset[str]:
    query = "SELECT sql FROM source.sqlite_master WHERE type = 'table' AND name = ?"
    (sql,) = pair.execute(query, (table,)).fetchone()
    return _KNOWN | frozenset(map(str, _REFERS.findall(str(sql))))
