"""Small pieces of HTML: escaped text, amounts with units, sortable and searchable tables."""

from collections.abc import Iterable, Mapping
from html import escape

from gpu_profile.formats.table_formats import format_cell
from gpu_profile.printable import name_program
from gpu_profile.table import Cell, Column, Table

MOST_ROWS = 200
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_WRAPS = frozenset({"Evidence", "Advice"})


def read_number(cell: Cell) -> float:
    """The number of a cell, or 0.0 of one that holds none."""
    return float(cell) if isinstance(cell, int | float) else 0.0


def name_bar(rank: Cell, is_alone: bool) -> str:
    """ "rank 3"; "" in a run of one rank, where the name says nothing."""
    return "" if is_alone else f"rank {rank}"


def render_tag(name: str, *content: str, **attributes: str | int | float | None) -> str:
    """An HTML element. `class_` and `aria_label` become class and aria-label; None omits an
    attribute.

    `content` must be HTML already: pass text from a report through render_text() first.
    """
    attributes_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{attributes_text}>{''.join(content)}</{name}>"


def render_text(value: object) -> str:
    """The value as text, escaped for HTML content."""
    return escape(str(value))


def format_duration(ns: float) -> str:
    """A duration with three digits and a fitting unit, e.g. 15.3 ms."""
    size, unit = next((pair for pair in _TIMES if abs(ns) >= pair[0]), _TIMES[-1])
    return f"{_format_three_digits(ns / size)} {unit}"


def format_size(count: float) -> str:
    """A number of bytes with three digits and a fitting unit, e.g. 25.0 MB."""
    size, unit = next((pair for pair in _SIZES if count >= pair[0]), (1, "B"))
    return f"{_format_three_digits(count / size)} {unit}" if size > 1 else f"{count:.0f} B"


def format_rate(gigabytes: float) -> str:
    """A rate in GB/s with three digits and a fitting unit, e.g. 72.8 kB/s."""
    return f"{format_size(1e9 * gigabytes)}/s"


def format_times(count: float) -> str:
    """ "once", or "1,456 times"."""
    return "once" if count == 1 else f"{count:,.0f} times"


def _format_three_digits(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def format_percent(share: float) -> str:
    """Return a share from 0 to 1 as `12.3 %`."""
    return f"{100 * share:.1f} %"


def render_section(anchor: str, title: str, intro: str, *content: str) -> str:
    """A section of the page with its heading and an intro of one or two sentences."""
    heading = render_tag("h2", render_text(title), id=f"{anchor}-title")
    lead = render_tag("p", render_text(intro), class_="intro") if intro else ""
    return render_tag(
        "section", heading, lead, *content, id=anchor, aria_labelledby=f"{anchor}-title"
    )


def render_legend(entries: Iterable[tuple[str, str]]) -> str:
    """A legend from (CSS class, label) pairs."""
    return render_tag(
        "ul",
        *(
            render_tag("li", render_tag("i", class_=f"key {name}"), render_text(label))
            for name, label in entries
        ),
        class_="legend",
    )


def render_folded(summary: str, *content: str, open_: bool = False) -> str:
    """Return HTML that is folded under its summary. `content` must be HTML already."""
    return render_tag(
        "details",
        render_tag("summary", render_text(summary)),
        *content,
        open="open" if open_ else None,
    )


def data_table(table: Table, caption: str, most: int = MOST_ROWS) -> str:
    """An HTML table, complete without the script, which makes it sortable and searchable."""
    if not table.rows:
        return render_tag("p", render_text("No such events in these reports."), class_="note")
    numeric = [_is_numeric(table, index) for index in range(len(table.columns))]
    head = render_tag("tr", *map(_render_heading, table.columns, numeric))
    body = "".join(
        render_tag("tr", *map(_render_cell, row, table.columns, numeric))
        for row in table.rows[:most]
    )
    note = ""
    if len(table.rows) > most:
        note = name_program(
            f"The first {most} of {len(table.rows):,} rows; "
            f"invoke stats --table {table.title} prints all."
        )
    grid = render_tag(
        "table",
        render_tag("caption", render_text(caption)),
        render_tag("thead", head),
        render_tag("tbody", body),
        data_table=table.title,
    )
    frame = render_tag("div", grid, class_="scroll", tabindex=0, role="region", aria_label=caption)
    return render_tag(
        "div",
        frame,
        render_tag("p", render_text(note), class_="note") if note else "",
        class_="data",
    )


def _is_numeric(table: Table, index: int) -> bool:
    return any(isinstance(row[index], int | float) for row in table.rows)


def _render_heading(column: Column, numeric: bool) -> str:
    return render_tag("th", render_text(column), scope="col", class_="number" if numeric else None)


def _render_cell(cell: Cell, column: Column, numeric: bool) -> str:
    if cell is None:
        return "<td></td>"
    if numeric and not isinstance(cell, str):
        separated = column.unit or isinstance(cell, float)
        number = _format_float(cell, column) if isinstance(cell, float) else f"{cell:,}"
        content = number if separated else format_cell(cell, column)
        return render_tag("td", content, class_="number", data_value=repr(cell))
    value = str(cell)
    if column.name in _WRAPS or len(value) <= 48:
        return render_tag("td", render_text(value))
    return render_tag(
        "td", render_tag("span", render_text(value), class_="long", tabindex=0), title=value
    )


def _format_float(cell: float, column: Column) -> str:
    """The number with the column's digits; with two of its own where these would be zeros."""
    number = f"{cell:,.{column.decimals}f}"
    is_lost = cell and not number.strip("-0.,")
    return f"{cell:.2g}" if is_lost else number


def render_facts(pairs: Mapping[str, str]) -> str:
    """Facts of the run as a description list; empty values are left out."""
    entries = (
        render_tag("div", render_tag("dt", render_text(name)), render_tag("dd", render_text(value)))
        for name, value in pairs.items()
        if value
    )
    return render_tag("dl", *entries, class_="facts")


def render_figures(entries: Iterable[tuple[str, str, str]]) -> str:
    """Cards with the most important numbers, from (label, value, remark)."""
    cards = (
        render_tag(
            "div",
            render_tag("span", render_text(label), class_="label"),
            render_tag("strong", render_text(value)),
            render_tag("span", render_text(remark), class_="remark"),
            class_="figure",
        )
        for label, value, remark in entries
    )
    return render_tag("div", *cards, class_="figures")
