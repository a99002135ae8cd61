"""A comparison as text, JSON, Markdown and JUnit XML."""

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

from gpu_profile.analysis.compare.compare import Comparison, SideTimes
from gpu_profile.errors import SettingsError
from gpu_profile.formats.table_formats import format_cell, to_text
from gpu_profile.printable import printable
from gpu_profile.table import Cell, Column, Table

MOST_ROWS = 20
HTML = "html"
"""The format of a page, which needs the reports too: page/compare_text.py writes it."""


def as_text(comparison: Comparison) -> str:
    """Return the verdict, a line a side, remarks, and a table of the kernels that changed."""
    verdict, *more = list_lines(comparison)
    lines = [verdict, "", *more, ""]
    if not comparison.kernels.rows:
        return "\n".join([*lines, "No kernel appeared, vanished or changed.", ""])
    return "\n".join(lines) + "\n" + to_text(_select_top(comparison.kernels))


def list_lines(comparison: Comparison) -> list[str]:
    """The verdict, a line a side, and remarks."""
    sides = (_format_side(*side) for side in _list_sides(comparison))
    return [printable(str(comparison)), *sides, *_list_remarks(comparison)]


def as_json(comparison: Comparison) -> str:
    """The comparison as JSON with stable keys; times in ns, changes as fractions."""
    change = comparison.difference
    names = [str(column) for column in comparison.kernels.columns]
    document = {
        "metric": comparison.metric,
        "verdict": comparison.verdict,
        "base": vars(comparison.base),
        "new": vars(comparison.new),
        "change": change.change if change else None,
        "interval": [change.low, change.high] if change else None,
        "noise": change.noise if change else None,
        "spread": change.spread if change else None,
        "spread_assumed": change.is_assumed if change else None,
        "significant": change.significant if change else None,
        "fail_over": comparison.fail_over,
        "missing_steps": comparison.missing_steps,
        "runs_to_decide": comparison.runs_to_decide,
        "notes": list(comparison.notes),
        "kernels": [dict(zip(names, row, strict=True)) for row in comparison.kernels.rows],
    }
    return json.dumps(document, indent=2) + "\n"


def as_markdown(comparison: Comparison) -> str:
    """The comparison for a pull request.

    Names stand in code spans, so that markup, links and mentions in a name have no effect.
    """
    head = [
        "",
        "| side | runs | samples | median ms | p95 ms | CV % | steps left out |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = [
        f"| {name} | {len(s.medians)} | {s.count} | {s.median / 1e6:.3f} | {s.p95 / 1e6:.3f} "
        f"| {s.cv_percent:.1f} | {s.warm_up + s.left_out} |"
        for name, s in _list_sides(comparison)
    ]
    metric = printable(comparison.metric)
    name = make_code_span(metric) if ":" in metric else metric  # the name of a range or kernel
    verdict = printable(str(comparison)).removeprefix(metric)
    remarks = [f"- {make_code_span(line)}" for line in _list_remarks(comparison)]
    table = _format_markdown(comparison.kernels)
    return "\n".join([f"**{name}{verdict}**", *head, *rows, "", *remarks, *table, ""])


def as_junit(comparison: Comparison) -> str:
    """The comparison as one JUnit test case: a regression is a failure, "undecided" a skip, or
    with --require-decision a failure too.

    All text is printable: XML 1.0 cannot contain ESC, not even as a character reference.
    """
    failed = comparison.fails
    skipped = comparison.verdict == "undecided" and not failed
    counts = {"tests": "1", "failures": str(int(failed)), "skipped": str(int(skipped))}
    suite = ElementTree.Element("testsuite", {"name": "gpu-profile compare", **counts})
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "compare", "name": printable(comparison.metric)}
    )
    if failed or skipped:
        kind = "failure" if failed else "skipped"
        ElementTree.SubElement(case, kind, {"message": printable(str(comparison))})
    ElementTree.SubElement(case, "system-out").text = as_text(comparison)
    # For whoever opens the file: readers of JUnit do not care.
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


_WRITERS = {
    "text": (as_text, "txt"),
    "json": (as_json, "json"),
    "markdown": (as_markdown, "md"),
    "junit": (as_junit, "xml"),
}


def write_comparison(comparison: Comparison, form: str) -> str:
    """The comparison as text, json, markdown or junit. Raises SettingsError for another form."""
    return _find_format(form)[0](comparison)


def file_name(form: str) -> str:
    """The file name for a format, e.g. "comparison.json". Raises SettingsError for others."""
    if form == HTML:
        return "comparison.html"
    return f"comparison.{_find_format(form)[1]}"


def _find_format(name: str) -> tuple[Callable[[Comparison], str], str]:
    if name not in _WRITERS:
        raise SettingsError(f"--format {name!r} is not known", f"Use {', '.join(_WRITERS)}")
    return _WRITERS[name]


def _list_sides(comparison: Comparison) -> tuple[tuple[str, SideTimes], ...]:
    return ("base", comparison.base), ("new", comparison.new)


def _format_side(name: str, side: SideTimes) -> str:
    medians = f"median {side.median / 1e6:.3f} ms"
    if len(side.medians) > 1:
        listed = ", ".join(f"{median / 1e6:.3f}" for median in side.medians)
        medians = f"{len(side.medians)} runs, medians {listed} ms"
    return (
        f"{name:4}  {side.count} samples, {medians}, "
        f"p95 {side.p95 / 1e6:.3f} ms, CV {side.cv_percent:.1f} %"
    )


def _list_remarks(comparison: Comparison) -> list[str]:
    """Lines on the steps that were left out, on what the runs differ in, and on what would find a
    change of the size of the threshold.
    """
    need = comparison.describe_need() if comparison.verdict == "pass" else ""
    sides = [_describe_left_out(*side) for side in _list_sides(comparison)]
    notes = [f"note: {printable(note)}" for note in comparison.notes]
    remarks = [*filter(None, sides), *notes]
    if need:
        remarks.append(f"{need}.")
    return remarks


def _describe_left_out(name: str, side: SideTimes) -> str:
    counts = []
    if side.warm_up:
        counts.append(f"{side.warm_up} of warm-up")
    if side.left_out:
        counts.append(f"{side.left_out} not on every rank ({side.reason})")
    return f"{name:4}  steps left out: {', '.join(counts)}" if counts else ""


def _select_top(table: Table) -> Table:
    return table.where(table.rows[:MOST_ROWS])


def _format_markdown(table: Table) -> list[str]:
    if not table.rows:
        return []
    head = "| " + " | ".join(map(str, table.columns)) + " |"
    rule = "| " + " | ".join("---" for _ in table.columns) + " |"
    rows = [
        "| "
        + " | ".join(_format_markdown_cell(c, k) for c, k in zip(row, table.columns, strict=True))
        + " |"
        for row in _select_top(table).rows
    ]
    return ["", head, rule, *rows]


def _format_markdown_cell(cell: Cell, column: Column) -> str:
    """A table cell as Markdown. Kernel names go into code spans, because a report can hold any
    text.
    """
    text = format_cell(cell, column)
    return make_code_cell(printable(text)) if column.name == "Kernel" else text


def make_code_cell(text: str) -> str:
    r"""A code span for a table's cell. A pipe ends a cell in code spans too, and so does one after
    `\\`, which is an escaped backslash: these are left out before a pipe.
    """
    return re.sub(r"\\*\|", r"\\|", make_code_span(text))


def make_code_span(text: str) -> str:
    """A Markdown code span around the text, with more backticks than the text has in a row."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{space}{text}{space}{fence}"
