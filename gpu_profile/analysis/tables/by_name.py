"""Analyses by name, whose modules are imported when one is asked for: a table needs few of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_profile.analysis.analysis import Analysis


class Named(Mapping[str, "Analysis"]):
    """`places`: where each analysis stands, as "module.NAME" of this package."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> "Analysis":
        module, _, constant = self._places[name].partition(".")
        found: Analysis = getattr(import_module(f"gpu_profile.analysis.{module}"), constant)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places
