"""The result of `ci` as JSON, and read again: from a job that nobody has to trust."""

import json
import math
from dataclasses import asdict, replace
from typing import Any

import msgspec

from gpu_profile.analysis.compare.paired import MOST_PAIRS
from gpu_profile.analysis.pull_request.changes import MOST_CHANGES
from gpu_profile.analysis.pull_request.figure import TITLES, Figure
from gpu_profile.analysis.pull_request.result import CiResult
from gpu_profile.errors import ReportError
from gpu_profile.printable import printable_json

MOST_BYTES = 1 << 20
"""A result has some kB: the names of kernels are most of it."""
_LEAST_MS, _MOST_MS = 1e-6, 1e9
"""A nanosecond, as the reports count, and eleven days; ratios of these have an exponential."""
_AGAIN = "It is what `ci --format json` writes: make it again"


def as_json(result: CiResult) -> str:
    """Return the document of schema "ci": the result, and what follows from it for readers."""
    document: dict[str, Any] = {"verdict": result.verdict, "fails": result.fails}
    document |= {"needs": list(result.list_needs()), **asdict(result)}
    for figure, shown in zip(result.figures, document["figures"], strict=True):
        difference = figure.difference
        shown["verdict"] = figure.verdict
        for name in ("change", "low", "high", "noise"):
            shown[name] = getattr(difference, name) if difference else None
    return printable_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def read_result(text: str) -> CiResult:
    """Return the result of a document. The verdicts are made anew from the runs' times.

    Raises ReportError for what is no result, or one that no job of ours writes. The command that
    repeats it is left out: a reader might type it.
    """
    try:
        result = msgspec.json.decode(text, type=CiResult)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise ReportError(f"the file is not a result of ci: {error}", _AGAIN) from error
    if why := _find_fault(result):
        raise ReportError(f"the file is not a result of ci: {why}", _AGAIN)
    return replace(result, repeat=())


def _find_fault(result: CiResult) -> str:
    """Return why no job of ours writes this; "" where it may."""
    metrics = [figure.metric for figure in result.figures]
    if not metrics or len(metrics) != len(set(metrics)) or not set(metrics) <= TITLES.keys():
        return f"its figures are not of {', '.join(TITLES)}"
    if len(result.changes) > MOST_CHANGES:
        return f"it has more than {MOST_CHANGES} changes"
    for figure in result.figures:
        if why := _find_fault_of_figure(figure):
            return f"{figure.metric} has {why}"
    times = [ms for change in result.changes for ms in (change.base_ms, change.new_ms)]
    return "" if all(map(_is_time, times)) else "a change has an impossible time"


def _find_fault_of_figure(figure: Figure) -> str:
    pairs = len(figure.base_ms)
    if pairs != len(figure.new_ms) or not 1 <= pairs <= MOST_PAIRS:
        return f"no 1 to {MOST_PAIRS} pairs of runs"
    if not all(map(_is_time, (*figure.base_ms, *figure.new_ms))):
        return "an impossible time"
    if figure.fewest < 0:
        return "an impossible number of steps"
    return "" if 0 <= figure.fail_over < _MOST_MS else "an impossible threshold"


def _is_time(ms: float) -> bool:
    return math.isfinite(ms) and (ms == 0 or _LEAST_MS <= ms < _MOST_MS)
