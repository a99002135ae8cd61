"""Format tables as text, CSV and JSON."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpu_profile.formats.function_names import shorten_names
from gpu_profile.printable import printable, printable_json
from gpu_profile.table import Cell, Column, Table

NAME_AT_LEAST = 40  # characters left of a shortened name, however narrow the terminal


def to_csv(table: Table) -> str:
    """The table as CSV, equal to the bytes of `nsys stats --format csv`.

    Control characters in names are not escaped, so print it to a file or a pipe only.
    """
    file = io.StringIO()
    # csv's own line end is \r\n, and nsys writes \n.
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(str, table.columns))
    writer.writerows(_format_rows(table))
    return file.getvalue()


def to_json(tables: Sequence[Table]) -> str:
    """A JSON object by title; each table is a list of objects by column ("Total Time (ns)").

    Numbers stay numbers, floats in full precision; an empty cell is null.
    """
    import json  # takes 2 ms, which no other form needs

    names = [[str(column) for column in table.columns] for table in tables]
    document = {
        table.title: [dict(zip(name, row, strict=True)) for row in table.rows]
        for table, name in zip(tables, names, strict=True)
    }
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def to_text(table: Table, width: int = 120) -> str:
    """A title and aligned columns in `width` characters; texts of over 40 are shortened to fit.

    A table with many numbers is wider than `width`, so that names stay readable: see fit_columns.
    """
    if not table.rows:
        return f"{table.title}: {table.hint or 'no such events in the report'}\n"
    grid, widths = _lay_out(table, width)
    right = [_is_number(table, index) for index in range(len(table.columns))]
    columns = zip(*grid, strict=True)
    names = [shorten_names(column, wide) for column, wide in zip(columns, widths, strict=True)]
    lines = [_format_line(row, names, widths, right) for row in grid]
    rule = "  ".join("-" * columns for columns in widths)
    return "\n".join([table.title, "", lines[0], rule, *lines[1:], ""])


def fit_columns(table: Table, width: int) -> tuple[Table, tuple[str, ...]]:
    """Leave out the last quantities (columns with a unit) of a table that is wider than `width`.

    Returns the table and the names of these columns. The first two quantities stay.
    """
    grid, widths = _lay_out(table, width)
    quantities = [
        index
        for index, column in enumerate(table.columns)
        if column.unit and _is_number(table, index)
    ]
    excess, left_out = _measure_excess(widths, width), list[int]()
    for index in reversed(quantities[2:]):
        if excess > 0:
            excess -= widths[index] + 2
            left_out.insert(0, index)
    kept = [index for index in range(len(widths)) if index not in left_out]
    columns = tuple(table.columns[index] for index in kept)
    rows = tuple(tuple(row[index] for index in kept) for row in table.rows)
    return replace(table, columns=columns, rows=rows), tuple(grid[0][index] for index in left_out)


def _lay_out(table: Table, width: int) -> tuple[list[list[str]], list[int]]:
    """The texts of the heads and of each row, and the width of each column."""
    grid = [[str(column) for column in table.columns], *_format_rows(table, separate=True)]
    longest = [max(map(len, column)) for column in zip(*grid, strict=True)]
    return grid, _fit_widths(longest, table, width)


def _measure_excess(widths: Sequence[int], width: int) -> int:
    return sum(widths) + 2 * (len(widths) - 1) - width


def format_cell(cell: Cell, column: Column) -> str:
    """A cell as nsys prints it in CSV."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{_round_half_up(cell, column):.{column.decimals}f}"
    return str(cell)


def _round_half_up(value: float, column: Column) -> float:
    """Round a tie away from zero as nsys does (127378.25 is 127378.3); Python rounds it to even.

    Only an odd multiple of 2^-(decimals+1) is a tie that a binary float can hold exactly.
    """
    if value * 2 ** (column.decimals + 1) % 2 == 1:
        return math.nextafter(value, math.copysign(math.inf, value))
    return value


def format_texts(table: Table) -> list[list[str]]:
    """The cells of each row as text, with thousands separated."""
    return _format_rows(table, separate=True)


def _format_rows(table: Table, separate: bool = False) -> list[list[str]]:
    return [
        [
            _format_separated(cell, column) if separate else format_cell(cell, column)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]


def _format_separated(cell: Cell, column: Column) -> str:
    """A cell with thousands separated if the column has a unit, because ids are not quantities."""
    if isinstance(cell, int) and column.unit:
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{_round_half_up(cell, column):,.{column.decimals}f}"
    return printable(format_cell(cell, column).replace("\n", " "))


def _is_number(table: Table, index: int) -> bool:
    return any(isinstance(row[index], int | float) for row in table.rows)


def _fit_widths(widths: list[int], table: Table, width: int) -> list[int]:
    """Shorten the widest text column again and again until the line fits."""
    heads = [len(str(column)) for column in table.columns]
    texts = [index for index in range(len(widths)) if not _is_number(table, index)]
    excess = _measure_excess(widths, width)
    while excess > 0 and texts:
        widest = max(texts, key=lambda index: widths[index])
        least = max(NAME_AT_LEAST, heads[widest])
        if widths[widest] <= least:
            break
        cut = min(excess, widths[widest] - least)
        widths[widest] -= cut
        excess -= cut
    return widths


def _format_line(
    row: list[str], names: list[Mapping[str, str]], widths: list[int], right: list[bool]
) -> str:
    cells = (
        short[text].rjust(width) if number else short[text].ljust(width)
        for text, short, width, number in zip(row, names, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()
