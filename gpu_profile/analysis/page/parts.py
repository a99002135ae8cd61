"""Small pieces of HTML: escaped text, amounts with units, tables that sort and search."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from gpu_profile.table import Cell, Column, Table
from gpu_profile.table_formats import shown

MOST_ROWS = 200
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_WRAPS = frozenset({"Evidence", "Advice"})


def tag(name: str, *content: str, **attributes: str | int | float | None) -> str:
    """An element; `class_` and `aria_label` become class and aria-label, None leaves one out.

    Content is HTML already: what comes from a report goes through `text` first.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{''.join(content)}</{name}>"


def text(value: object) -> str:
    """Escaped, for content."""
    return escape(str(value))


def duration(ns: float) -> str:
    """Three digits and the unit that suits: 15.3 ms."""
    size, unit = next((pair for pair in _TIMES if abs(ns) >= pair[0]), _TIMES[-1])
    return f"{_three(ns / size)} {unit}"


def _three(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def section(anchor: str, title: str, intro: str, *content: str) -> str:
    """A part of the page with its heading; the intro is one plain sentence or two."""
    heading = tag("h2", text(title), id=f"{anchor}-title")
    lead = tag("p", text(intro), class_="intro") if intro else ""
    return tag("section", heading, lead, *content, id=anchor, aria_labelledby=f"{anchor}-title")


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """(class, label) of each pattern used."""
    return tag(
        "ul",
        *(tag("li", tag("i", class_=f"key {name}"), text(label)) for name, label in entries),
        class_="legend",
    )


def folded(summary: str, *content: str, open_: bool = False) -> str:
    return tag("details", tag("summary", text(summary)), *content, open="open" if open_ else None)


def data_table(table: Table, caption: str, most: int = MOST_ROWS) -> str:
    """A table that the script makes sortable and searchable; complete without it."""
    if not table.rows:
        return tag("p", text("No such events in these reports."), class_="note")
    numeric = [_is_numeric(table, index) for index in range(len(table.columns))]
    head = tag("tr", *map(_heading, table.columns, numeric))
    body = "".join(_row(row, table.columns, numeric) for row in table.rows[:most])
    note = ""
    if len(table.rows) > most:
        note = (
            f"The first {most} of {len(table.rows):,} rows; "
            f"invoke stats --table {table.title} prints all."
        )
    grid = tag("table", tag("caption", text(caption)), tag("thead", head), tag("tbody", body))
    frame = tag("div", grid, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return tag("div", frame, tag("p", text(note), class_="note") if note else "", class_="data")


def _is_numeric(table: Table, index: int) -> bool:
    return any(isinstance(row[index], int | float) for row in table.rows)


def _heading(column: Column, numeric: bool) -> str:
    return tag("th", text(column), scope="col", class_="number" if numeric else None)


def _row(row: Sequence[Cell], columns: Sequence[Column], numeric: Sequence[bool]) -> str:
    return tag("tr", *map(_cell, row, columns, numeric))


def _cell(cell: Cell, column: Column, numeric: bool) -> str:
    if cell is None:
        return "<td></td>"
    if numeric and not isinstance(cell, str):
        separated = column.unit or isinstance(cell, float)
        number = f"{cell:,.{column.decimals}f}" if isinstance(cell, float) else f"{cell:,}"
        content = number if separated else shown(cell, column)
        return tag("td", content, class_="number", data_value=repr(cell))
    value = str(cell)
    if column.name in _WRAPS or len(value) <= 48:
        return tag("td", text(value))
    return tag("td", tag("span", text(value), class_="long", tabindex=0), title=value)


def facts(pairs: Mapping[str, str]) -> str:
    """What is known of the run, as a list of terms."""
    entries = (
        tag("div", tag("dt", text(name)), tag("dd", text(value)))
        for name, value in pairs.items()
        if value
    )
    return tag("dl", *entries, class_="facts")


def figures(entries: Iterable[tuple[str, str, str]]) -> str:
    """(label, value, remark) of the few numbers to see first."""
    cards = (
        tag(
            "div",
            tag("span", text(label), class_="label"),
            tag("strong", text(value)),
            tag("span", text(remark), class_="remark"),
            class_="figure",
        )
        for label, value, remark in entries
    )
    return tag("div", *cards, class_="figures")
