"""One setting of a component, declared as a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpu_profile.components.kinds import KeyKind

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


_KINDS: Mapping[str, KeyKind] = {
    "VERSION": "version",
    "URL": "url",
    "COMMIT": "commit",
    "SHA256": "sha256",
    "FINGERPRINT": "fingerprint",
}


def make_text_key(name: str, default: str, doc: str) -> Key:
    """Its kind is that of its last word: NCCL_URL is a URL."""
    return Key(name=name, default=default, doc=doc, kind=_KINDS[name.rpartition("_")[2]])


def make_switch_key(name: str, doc: str, *, default: bool) -> Key:
    return Key(name=name, kind="bool", default=default, doc=doc)


def make_choice_key(name: str, choices: tuple[str, ...], doc: str) -> Key:
    """The first choice is the default."""
    return Key(name=name, kind="choice", choices=choices, default=choices[0], doc=doc)


def as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else value
