"""What must not leave a machine inside a report: credentials, paths, users, hosts, strings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_profile.redact import CREDENTIAL, CREDENTIALS, FREE_TEXT

SECRET, PATH = "<secret>", "<path>"


_ROOT_FOLDERS = (
    "home Users root tmp opt usr var mnt data scratch workspace fsx efs lustre gpfs nfs srv etc "
    "wd private media shared work projects proj run proc sys dev lib lib64 bin sbin boot"
)
ROOTS = frozenset(_ROOT_FOLDERS.split())
_FILE = re.compile(
    r"[^/\\]+\.(?:py[cw]?|so(?:\.\d+)*|cu|cc|cpp|c|h|hpp|log|sqlite|nsys-rep|qdstrm|sh|ko|dll|exe)$"
)
_PART = rf"(?:[\w.+@%~,-]|{SECRET})+"
_ANY_PATH = rf"(?<![\w.<>/-])~?/(?!/)(?:(?:{_PART}/)+{_PART}/?|(?:{_PART}/)+|[\w.+@%~,-]{{3,}})"
_WINDOWS = r"\b[A-Za-z]:\\{1,2}(?:[^\\\s\"<>|]+\\{1,2})*[^\\\s\"<>|]*"
_LOCAL_ADDRESS = (
    r"(?<![\d.])(?:10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}"
    r"|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})(?![\d.])"
)
_LOCAL_NAME = (
    r"\bip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w-]+)*"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:internal|local|compute\.amazonaws\.com)\b"
)
ADDRESSES = re.compile(f"{_LOCAL_ADDRESS}|{_LOCAL_NAME}")


@dataclass(frozen=True)
class Literal:
    """A string that must go. `word`: only where it stands alone; a given string goes anywhere."""

    value: str
    replacement: str
    word: bool = True

    @property
    def pattern(self) -> str:
        text = re.escape(self.value)
        return rf"(?i:(?<![A-Za-z0-9]){text}(?![A-Za-z0-9]))" if self.word else text


@dataclass(frozen=True)
class Redactor:
    """Replaces what must not leave. Pure: the same text gives the same text.

    `roots` are first folders of paths seen in this report; other words that begin with a slash
    may be names of layers ("/model/layers.0/MatMul" of ONNX) and stay, unless `everywhere`.
    `host_names`: the stand-in of every host, the same in all reports of a run.
    """

    literals: tuple[Literal, ...] = ()
    host_names: Mapping[str, str] = field(default_factory=dict)
    roots: frozenset[str] = ROOTS
    paths: bool = True
    hosts: bool = True

    def text(self, value: str, *, everywhere: bool = False) -> str:
        value = CREDENTIAL.sub(SECRET, value)
        for pattern in FREE_TEXT:
            value = pattern.sub(rf"\1{SECRET}", value)
        if self.paths and ("/" in value or "\\" in value):
            value = (self._anywhere if everywhere else self._rooted).sub(_shorten, value)
        if self.hosts:
            value = ADDRESSES.sub("<host>", value)
        for literal, pattern in self._literals:
            value = pattern.sub(literal.replacement, value)
        return value

    def blob(self, value: bytes) -> bytes:
        """Like `text`, length kept: a binary payload is read by offsets."""
        text = value.decode("latin-1")
        for pattern in (CREDENTIAL, *(pattern for _, pattern in self._literals), self._rooted):
            text = pattern.sub(lambda found: "*" * len(found[0]), text)
        return text.encode("latin-1")

    def leaks(self, value: str) -> str:
        """What of it is still in a text, in words, "" when nothing is. Never the thing itself."""
        for shape in CREDENTIALS:
            if re.search(shape.pattern, value):
                return shape.name
        if any(pattern.search(value) for pattern in FREE_TEXT):
            return "a value with a secret's name"
        if any(pattern.search(value) for _, pattern in self._literals):
            return "a user, host or given string"
        if self.paths and self._rooted.search(value):
            return "a path"
        return "a host" if self.hosts and ADDRESSES.search(value) else ""

    @cached_property
    def _literals(self) -> tuple[tuple[Literal, re.Pattern[str]], ...]:
        ordered = sorted(self.literals, key=lambda literal: literal.value)
        longest_first = sorted(ordered, key=lambda literal: -len(literal.value))
        return tuple((literal, re.compile(literal.pattern)) for literal in longest_first)

    @cached_property
    def _rooted(self) -> re.Pattern[str]:
        roots = "|".join(map(re.escape, sorted(self.roots | ROOTS)))
        return re.compile(rf"~?/+(?:{roots})(?:/+{_PART})+/?|~/{_PART}[\w./-]*|{_WINDOWS}")

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(f"{self._rooted.pattern}|{_ANY_PATH}")


def _shorten(found: re.Match[str]) -> str:
    """Keep the last name of a path where it is a program's or a file's, not a folder's."""
    name = re.split(r"[/\\]", found[0].rstrip("/\\"))[-1]
    return f"{PATH}/{name}" if _FILE.match(name) else PATH


def first_folders(texts: Iterable[str]) -> frozenset[str]:
    """The first folder of every absolute path in the texts."""
    return frozenset(
        found[1] for text in texts for found in re.finditer(r"(?<![\w.<>/])/([\w.+@-]{2,})/", text)
    )
