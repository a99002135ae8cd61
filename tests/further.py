"""Further cases of what `check` tests, and special ones: CI runs them, and `check` does not."""

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet


def further(*values: object) -> ParameterSet:
    """Return a case of parametrize with the marker `further`."""
    return pytest.param(*values, marks=pytest.mark.further)


def keep_first(count: int, cases: Iterable[object]) -> list[object]:
    """Return the cases of parametrize: those after the first `count` have the marker `further`."""
    listed = list(cases)
    marked = [
        further(*case) if isinstance(case, tuple) else further(case) for case in listed[count:]
    ]
    return [*listed[:count], *marked]
