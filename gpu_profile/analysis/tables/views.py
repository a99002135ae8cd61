"""Select rows of a table for a reader: by a pattern, or the first ones."""

import re
from decimal import Decimal

from gpu_profile.analysis.tables.summary import GROUPS
from gpu_profile.errors import SettingsError
from gpu_profile.table import Table


def filter_rows(table: Table, pattern: str) -> Table:
    """The rows in which a text matches the regular expression, ignoring case.

    Percentages remain those of the whole table. Raises SettingsError for an invalid expression.
    """
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        hint = "It is a regular expression: escape ( [ * + ? . with \\"
        raise SettingsError(f"--filter {pattern!r} cannot be read: {error}", hint) from error
    keep = [
        row
        for row in table.rows
        if any(isinstance(cell, str) and expression.search(cell) for cell in row)
    ]
    return table.where(keep)


def select_top(table: Table, count: int, by: str = "") -> Table:
    """The first `count` rows, of each group if the table is grouped; 0 for all."""
    if count < 0:
        raise SettingsError(f"--top {count} is less than none", "Give a number of rows, 0 for all")
    width, seen, keep = len(GROUPS.get(by, ())), dict[object, int](), []
    for row in table.rows:
        seen[row[:width]] = seen.get(row[:width], 0) + 1
        if seen[row[:width]] <= count or not count:
            keep.append(row)
    return table.where(keep)


_NS_IN = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def parse_interval(text: str) -> tuple[int, int]:
    """Return the ns of "1.5s:1510ms": (1500000000, 1510000000). Raises SettingsError."""
    fields = re.fullmatch(r"([\d.]+)([a-z]*):([\d.]+)([a-z]*)", text)
    if not fields or not {fields[2], fields[4]} <= set(_NS_IN):
        raise SettingsError(f"--between {text!r} is not an interval", "Use START:END, 1.5s:1510ms")
    start, end = (round(Decimal(fields[n]) * _NS_IN[fields[n + 1]]) for n in (1, 3))
    if start >= end:
        raise SettingsError(f"--between {text!r} ends before it starts", "Use START:END")
    return start, end


def check_by(by: str, groupings: tuple[str, ...], name: str) -> None:
    """Raise SettingsError for a grouping that the analysis does not support."""
    if by and by not in groupings:
        hint = f"Use --by {' or '.join(groupings)}" if groupings else "Leave --by out"
        raise SettingsError(f"{name} cannot be split by {by}", hint)
