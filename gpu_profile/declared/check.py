"""The result of one check of `invoke doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `invoke doctor`: the result, and what to do if it is not good."""

    name: str
    ok: bool
    result: str
    advice: str = ""
    is_required: bool = False
    """Whether nothing works without it: `doctor` then exits with 3, and `build` refuses."""
