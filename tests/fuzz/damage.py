"""One byte of a report's table damaged, as a bad disk or a broken copy does."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

INTERIOR = 5  # the kind of a b-tree page that points to others
NO_KIND = 0x77


def damage_leaf(report: Path, table: str, index: int = 0) -> int:
    """Overwrite the kind of the table's leaf page number `index`; returns the page's number."""
    with closing(sqlite3.connect(f"file:{report}?mode=ro&immutable=1", uri=True)) as database:
        (page_size,) = database.execute("PRAGMA page_size").fetchone()
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (page,) = database.execute(query, (table,)).fetchone()
    content = bytearray(report.read_bytes())
    start = (page - 1) * page_size
    if content[start] == INTERIOR:
        place = start + 12 + 2 * index
        cell = start + int.from_bytes(content[place : place + 2], "big")
        page = int.from_bytes(content[cell : cell + 4], "big")
    content[(page - 1) * page_size] = NO_KIND
    report.write_bytes(content)
    return int(page)


if __name__ == "__main__":
    print(f"page {damage_leaf(Path(sys.argv[1]), sys.argv[2])} damaged: 1 byte")
