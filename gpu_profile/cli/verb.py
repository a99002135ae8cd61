"""Verb and Option, the rows of the table of verbs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpu_profile.components.kinds import KeyKind

Options: TypeAlias = Mapping[str, Any]
"""The parsed flags by name, with "_" for "-". "words" holds the words behind `--`."""


@dataclass(frozen=True)
class Option:
    """A flag. Its type is that of its default; a flag with a list may be repeated.

    `settings`: .env keys that it overrides. `of`: the launchers that have it, if not all do. A
    positional one needs no name. `kind` and `choices`: its valid texts, unless a setting's kind
    says so.
    """

    name: str
    default: bool | int | float | str | tuple[str, ...]
    doc: str
    settings: tuple[str, ...] = ()
    positional: bool = False
    of: tuple[str, ...] = ()
    kind: KeyKind = "str"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verb:
    """A verb. `module`.`function` runs it; the function has the verb's name with "_" for "-"."""

    name: str
    module: str
    doc: str
    options: tuple[Option, ...] = ()

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2].replace("-", "_")
