"""Check the types of a run record's fields: run.json is input."""

import typing
from collections.abc import Mapping
from typing import Any


def check(run: Any) -> None:  # noqa: ANN401 - a RunRecord, whose module imports this one
    """Raise ValueError with the name of the first field whose value has the wrong type."""
    for name, kind in typing.get_type_hints(type(run)).items():
        if not _is_of(getattr(run, name), kind):
            raise ValueError(f"{name} has a value of another kind")
    for report in run.reports:
        check_report(report)
    if run.baseline and "ratio" not in run.baseline:
        raise ValueError("baseline has no ratio")
    unit = "step_ms" if "step_ms" in run.baseline else "wall_s"
    if run.baseline and not {unit, f"profiled_{unit}"} <= run.baseline.keys():
        raise ValueError(f"baseline has no {unit}")


def check_report(report: Any) -> None:  # noqa: ANN401 - a ReportSummary of runs/record.py
    """Raise ValueError for a value of another type than its field has, or a part of a control."""
    if report.control and not {"ms", "count", "recorded_ms"} <= report.control.keys():
        raise ValueError("reports: control has no ms")
    for name, kind in typing.get_type_hints(type(report)).items():
        if not _is_of(getattr(report, name), kind):
            raise ValueError(f"reports: {name} has a value of another kind")


def _is_of(value: object, kind: Any) -> bool:  # noqa: ANN401 - an annotation
    origin, words = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_of(item, words[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_is_of(v, words[1]) for v in value.values())
    if origin is typing.Literal:
        return value in words
    if words:  # int | None
        return any(_is_of(value, word) for word in words)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)
