"""Key, one setting of a component."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gpu_profile.declared.kinds import KeyKind

Value: TypeAlias = "bool | str"
Values: TypeAlias = Mapping[str, Value]
"""The components' settings by key, as in Settings.component."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One setting. `doc` is its comment in .env."""

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
    "PACKAGES": "packages",
    "FINGERPRINT": "fingerprint",
}


def make_text_key(name: str, default: str, doc: str) -> Key:
    """Return a key of text. Its kind follows from its last word: NCCL_URL is a URL."""
    return Key(name=name, default=default, doc=doc, kind=_KINDS[name.rpartition("_")[2]])


def make_switch_key(name: str, doc: str, *, default: bool) -> Key:
    return Key(name=name, kind="bool", default=default, doc=doc)


def make_choice_key(name: str, choices: tuple[str, ...], doc: str) -> Key:
    """Return a key with these values. The first one is the default."""
    return Key(name=name, kind="choice", choices=choices, default=choices[0], doc=doc)


def as_text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else value
