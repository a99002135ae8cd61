"""What must not leave a machine inside a report: credentials, paths, users, hosts, strings."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_profile.analysis.scrub.addresses import HOST, hide_addresses
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
_CODE = "py|pyx|ipynb|cu|cuh|cc|cpp|cxx|c|h|hpp|jl|rs|go|ts|js|sh"
_SOURCE = rf"(?<![\w.<>/-])(?:~|\.{{1,2}})?/?(?:{_PART}/)+{_PART}\.(?:{_CODE})(?![\w.-])"
"""A source file behind any folder: `/workspace/app/model.py`, `src/model.py`."""


@dataclass(frozen=True)
class Literal:
    """A string that must go. `word`: only where it stands alone; a given string goes anywhere."""

    value: str
    replacement: str
    word: bool = True
    short: bool = False
    """Three letters or fewer: in a report's name and in fields that describe the machine only."""

    @property
    def pattern(self) -> str:
        text = re.escape(self.value)
        if self.short:
            return rf"(?i:(?<=\.){text}(?=\.(?:\d+\.)?(?:nsys-rep|sqlite|qdstrm)))"
        return rf"(?i:(?<![A-Za-z0-9]){text}(?![A-Za-z0-9]))" if self.word else text

    @property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


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
            value = (self._anywhere if everywhere else self._rooted).sub(_strip_folders, value)
        if self.hosts:
            value = hide_addresses(value, everywhere=everywhere)
            for stem in self._stems:
                value = stem.sub(HOST, value)
        for literal, pattern in self._literals:
            value = pattern.sub(literal.replacement, value)
        for literal in self.literals if everywhere else ():
            if literal.short:
                value = replace(literal, short=False).regex.sub(literal.replacement, value)
        return value

    def blob(self, value: bytes) -> bytes:
        """Like `text`, length kept: a binary payload is read by offsets."""
        text = value.decode("latin-1")
        for pattern in (CREDENTIAL, *(pattern for _, pattern in self._literals), self._rooted):
            text = pattern.sub(lambda match: "*" * len(match[0]), text)
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
        return "a host" if self.hosts and hide_addresses(value) != value else ""

    @cached_property
    def _stems(self) -> tuple[re.Pattern[str], ...]:
        """Neighbours of known hosts: `gpunode08` and `gpunode[01-08]` beside gpunode07."""
        name_matches = {
            re.fullmatch(r"([A-Za-z][A-Za-z_-]{2,})\d+", name) for name in self.host_names
        }
        stems = sorted({match[1] for match in name_matches if match})
        number = r"(?:\d+|\[\d+(?:[-,]\d+)*\])"
        host_pattern = (
            "|".join(rf"{re.escape(name)}(?![\w-])" for name in self.host_names) or "(?!)"
        )
        return tuple(
            re.compile(rf"(?i)(?<![\w-])(?!{host_pattern}){re.escape(stem)}{number}(?![\w-])")
            for stem in stems
        )

    @cached_property
    def _literals(self) -> tuple[tuple[Literal, re.Pattern[str]], ...]:
        ordered = sorted(self.literals, key=lambda literal: literal.value)
        longest_first = sorted(ordered, key=lambda literal: -len(literal.value))
        return tuple((literal, re.compile(literal.pattern)) for literal in longest_first)

    @cached_property
    def _rooted(self) -> re.Pattern[str]:
        roots = "|".join(map(re.escape, sorted(self.roots | ROOTS)))
        return re.compile(
            rf"~?/+(?:{roots})(?:/+{_PART})+/?|~/{_PART}[\w./-]*|{_SOURCE}|{_WINDOWS}"
        )

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(f"{self._rooted.pattern}|{_ANY_PATH}")


def _strip_folders(match: re.Match[str]) -> str:
    """Keep the last name of a path where it is a program's or a file's, not a folder's."""
    name = re.split(r"[/\\]", match[0].rstrip("/\\"))[-1]
    return f"{PATH}/{name}" if _FILE.match(name) else PATH


def first_folders(texts: Iterable[str]) -> frozenset[str]:
    """The first folder of every absolute path in the texts."""
    return frozenset(
        match[1] for text in texts for match in re.finditer(r"(?<![\w.<>/])/([\w.+@-]{2,})/", text)
    )
