"""One setting of a component, declared as a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

KeyKind = Literal["bool", "str", "choice", "words"]
Value: TypeAlias = "bool | str"
Values: TypeAlias = Mapping[str, Value]
"""The components' settings by key, as they stand in Settings.component."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One setting. `doc` becomes its comment in .env."""

    name: str
    doc: str
    default: Value = ""
    kind: KeyKind = "str"
    choices: tuple[str, ...] = ()


def text(name: str, default: str, doc: str) -> Key:
    return Key(name=name, default=default, doc=doc)


def switch(name: str, doc: str, *, default: bool) -> Key:
    return Key(name=name, kind="bool", default=default, doc=doc)


def choice(name: str, choices: tuple[str, ...], doc: str) -> Key:
    """The first choice is the default."""
    return Key(name=name, kind="choice", choices=choices, default=choices[0], doc=doc)


def as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else value
