"""One line of `invoke doctor`: what was found, and what to do about it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `invoke doctor`: what was found, and what to do where it is not well."""

    name: str
    ok: bool
    found: str
    advice: str = ""
