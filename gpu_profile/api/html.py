"""Write values as HTML for a notebook."""

import html
from collections.abc import Iterable

from gpu_profile.printable import printable

MOST_ROWS = 60
"""Rows of a table that a notebook shows, as pandas does (display.max_rows)."""


def describe_html(lines: Iterable[str]) -> str:
    """Return a list of lines as HTML."""
    items = "".join(f"<li>{escape_html(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def escape_html(text: str) -> str:
    """Return text without markup and control characters: names come from programs."""
    return html.escape(printable(text))


def format_html(title: str, columns: list[str], rows: list[list[str]], numbers: list[bool]) -> str:
    """Return a table as HTML: its title as the caption, its first MOST_ROWS rows."""
    head = "".join(f"<th>{escape_html(name)}</th>" for name in columns)
    body = "".join(_format_row(row, numbers) for row in rows[:MOST_ROWS])
    more = len(rows) - MOST_ROWS
    omitted = f" ({more} more rows)" if more > 0 else ""
    caption = f"<caption>{escape_html(title)}{omitted}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _format_row(row: list[str], numbers: list[bool]) -> str:
    cells = (
        f'<td style="text-align:{"right" if number else "left"}">{escape_html(cell)}</td>'
        for cell, number in zip(row, numbers, strict=True)
    )
    return f"<tr>{''.join(cells)}</tr>"
