"""The result of `ci` as text, JSON, a comment of at most 15 lines, and JUnit XML."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from xml.etree import ElementTree

from gpu_profile.analysis.compare.formats import make_code_cell, make_code_span
from gpu_profile.analysis.pull_request.document import as_json
from gpu_profile.analysis.pull_request.figure import WORDS, Figure, format_percent
from gpu_profile.analysis.pull_request.result import Change, CiResult
from gpu_profile.errors import find_row
from gpu_profile.formats.function_names import shorten_name
from gpu_profile.printable import printable

MARK = "<!-- gpu-profile ci -->"
"""The first line of a comment, by which the next run finds it."""
MOST_LINES = 15
_MOST_ROWS = 5
_NAME, _CAUSE, _COMMAND = 60, 100, 300


def as_text(result: CiResult) -> str:
    """Return the verdict, the figures, what changed, what would decide, and how to repeat it."""
    lines = [
        f"{WORDS[result.verdict]}: {result.pairs} pairs against {result.base}, {result.kernels}"
    ]
    lines += [f"  {figure}" for figure in result.figures]
    lines += [f"  {_describe_change(change)}" for change in result.changes]
    lines += [f"{need}." for need in result.list_needs()]
    lines += [f"note: {note}" for note in result.notes]
    if result.repeat:
        lines.append(f"repeat: {shlex.join(result.repeat)}")
    return "\n".join(map(printable, lines)) + "\n"


def _describe_change(change: Change) -> str:
    name = shorten_name(change.name, _NAME) if change.kind == "kernel" else change.name
    cause = f" ({change.cause})" if change.cause else ""
    times = f"{change.base_ms:.3f} -> {change.new_ms:.3f} ms"
    return f"{change.kind} {name}: {change.ms:+.3f} ms a step, {times}{cause}"


def as_markdown(result: CiResult) -> str:
    """The comment on a pull request. Names stand in code spans, so that markup, links and mentions
    in a name have no effect.
    """
    lines = [MARK, _make_head(result), "", *_make_table(result), "", _describe_noise(result)]
    if result.repeat:
        command = printable(shlex.join(result.repeat))
        lines.append(f"Repeat: {make_code_span(shorten_text(command, _COMMAND))}")
    return "\n".join(lines) + "\n"


def _make_head(result: CiResult) -> str:
    base = make_code_span(printable(shorten_text(result.base, _NAME)))
    head = f"**gpu-profile: {WORDS[result.verdict]}**"
    if result.verdict == "undecided":
        needs = "; ".join(result.list_needs())
        return f"{head} against {base}: {needs}"
    figures = [figure for figure in result.figures if figure.verdict == result.verdict]
    changes = (_describe_percent(figure) for figure in figures if result.verdict != "pass")
    return f"{head}, compared with {base}{''.join(f'; {change}' for change in changes)}"


def _describe_percent(figure: Figure) -> str:
    change = figure.difference.change if figure.difference else 0.0
    return f"{format_percent(change)} {'more' if change > 0 else 'less'} {figure.title} a step"


def _make_table(result: CiResult) -> Iterator[str]:
    yield "| a step | base ms | change ms | difference | how, and where |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for figure in result.figures:
        before, after = figure.mean_ms
        difference = figure.difference
        percent = f"{100 * difference.change:+.2f} %" if difference else ""
        noise = f", noise {100 * difference.noise:.2f} %" if difference else ""
        yield (
            f"| {figure.title} | {before:.3f} | {after:.3f} | {percent} | {figure.words}{noise} |"
        )
    for change in result.changes[:_MOST_ROWS]:
        yield (
            f"| {_name_change(change)} | {change.base_ms:.3f} | {change.new_ms:.3f} |"
            f" {change.ms:+.3f} ms | {_make_cell(change.cause, _CAUSE)} |"
        )


def _name_change(change: Change) -> str:
    kind = change.kind if change.kind in ("kernel", "module", "finding") else "other"
    return f"{kind} {_make_cell(shorten_name(change.name, _NAME), _NAME)}"


def _make_cell(text: str, most: int) -> str:
    return make_code_cell(printable(shorten_text(text, most))) if text else ""


def shorten_text(text: str, most: int) -> str:
    """Return a text of at most `most` characters; a cut one ends with "…"."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _describe_noise(result: CiResult) -> str:
    """One line: what was run, the kernels, and what the noise leaves open."""
    needs = "" if result.verdict == "undecided" else "; ".join(result.list_needs())
    more = len(result.changes) - _MOST_ROWS
    parts = [
        f"{result.pairs} pairs of runs in turn on one machine, {result.kernels}",
        f"more changes in the log: {more}" if more > 0 else "",
        needs,
        f"notes in the log: {len(result.notes)}" if result.notes else "",
    ]
    return "; ".join(filter(None, parts)) + "."


def as_junit(result: CiResult) -> str:
    """One test case a figure: slower is a failure, undecided a skip, or a failure where the gate
    asks for a decision.
    """
    suite = ElementTree.Element("testsuite", {"name": "gpu-profile ci"})
    counts = {"failure": 0, "skipped": 0}
    for figure in result.figures:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "ci", "name": figure.title})
        kind = _name_outcome(figure, result)
        if kind:
            counts[kind] += 1
            needs = figure.describe_need()
            message = f"{figure}. {needs}" if needs else str(figure)
            ElementTree.SubElement(case, kind, {"message": printable(message)})
    suite.set("tests", str(len(result.figures)))
    suite.set("failures", str(counts["failure"]))
    suite.set("skipped", str(counts["skipped"]))
    ElementTree.SubElement(suite, "system-out").text = as_text(result)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _name_outcome(figure: Figure, result: CiResult) -> str:
    if figure.verdict == "regression":
        return "failure"
    if figure.verdict != "undecided":
        return ""
    return "failure" if result.require_decision else "skipped"


_WRITERS: Mapping[str, Callable[[CiResult], str]] = {
    "text": as_text,
    "json": as_json,
    "markdown": as_markdown,
    "junit": as_junit,
}
FORMATS = tuple(_WRITERS)


def write_result(result: CiResult, form: str) -> str:
    """The result as text, json, markdown or junit. Raises SettingsError for another form."""
    return find_row(_WRITERS, form, "format")(result)
