"""Cases that prove once more what a test of `check` proves: CI runs them, and `check` does not."""

import pytest
from _pytest.mark.structures import ParameterSet


def further(*values: object) -> ParameterSet:
    """Return a case of parametrize with the marker `further`."""
    return pytest.param(*values, marks=pytest.mark.further)
