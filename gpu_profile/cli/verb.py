"""What a verb is: a row of names, flags and words of help."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpu_profile.components.kinds import KeyKind

Options: TypeAlias = Mapping[str, Any]
"""The parsed flags by name, with "-" as "_"; "words" holds what stood behind `--`."""


@dataclass(frozen=True)
class Option:
    """A flag. Its type is its default's; a list default may be given many times.

    `settings` are the .env keys that the flag overrides, `of` the launchers that know it where
    not all do. A positional one is said without its name. `kind` and `choices` say what text it
    may hold, unless a setting's kind does.
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
    """`module`.`function` (the name with "_") does it; both take the parsed Options."""

    name: str
    module: str
    doc: str
    options: tuple[Option, ...] = ()

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2].replace("-", "_")
