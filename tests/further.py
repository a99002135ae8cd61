"""Further cases of what `check` tests, and special ones: CI runs them, and `check` does not."""

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet


def further(*values: object) -> ParameterSet:
    """Return a case of parametrize with the marker `further`."""
    return pytest.param(*values, marks=pytest.mark.further)


def keep_first(count: int, cases: Iterable[object]) -> list[object]:
    """Return the cases of parametrize, with the marker `further` on all behind the first `count`.

    A case that pytest.param made keeps its marks.
    """
    listed = list(cases)
    return [*listed[:count], *map(_mark_further, listed[count:])]


def _mark_further(case: object) -> object:
    if isinstance(case, ParameterSet):
        return case._replace(marks=[*case.marks, pytest.mark.further])
    return further(*case) if isinstance(case, tuple) else further(case)
