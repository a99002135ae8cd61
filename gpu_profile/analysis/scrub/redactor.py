"""Replace credentials, paths, users, hosts and given strings in texts and blobs."""

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
"""A source file in any folder, e.g. `/workspace/app/model.py` or `src/model.py`."""

# The file and line in a mark of --annotate: "forward h.3|Attention|model.py:123".
_MODULE_MARK = re.compile(r"^((?:forward|backward|accumulate) [^|\n]*\|[^|\n]*)\|.*$", re.DOTALL)


@dataclass(frozen=True)
class Literal:
    """A string to be replaced. With `word` only where no letter or digit is beside it, else
    anywhere.
    """

    value: str
    replacement: str
    word: bool = True
    short: bool = False
    """Up to three letters: replaced only in names of reports and fields about the machine."""

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
    """Replaces what must not leave the machine; equal texts give equal results.

    `roots` are the first folders of paths in this report. Other words that begin with a slash can
    be names of layers ("/model/layers.0/MatMul" of ONNX) and stay, unless `everywhere`.
    `host_names` maps each host to its replacement ("host0"), the same in all reports of a run.
    """

    literals: tuple[Literal, ...] = ()
    host_names: Mapping[str, str] = field(default_factory=dict)
    roots: frozenset[str] = ROOTS
    paths: bool = True
    hosts: bool = True

    def text(self, value: str, *, everywhere: bool = False) -> str:
        value = CREDENTIAL.sub(SECRET, value)
        if self.paths:
            value = _MODULE_MARK.sub(r"\1", value)
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
        """The blob with matches replaced by "*" of the same length, because payloads are read by
        offsets.
        """
        text = value.decode("latin-1")
        for pattern in (CREDENTIAL, *(pattern for _, pattern in self._literals), self._rooted):
            text = pattern.sub(lambda match: "*" * len(match[0]), text)
        return text.encode("latin-1")

    def leaks(self, value: str) -> str:
        """What kind of secret is still in the text, e.g. "a path"; "" for none. Never the secret
        itself.
        """
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
        """Patterns for hosts that are named like known ones: `gpunode08` and `gpunode[01-08]` if
        gpunode07 is known.
        """
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
        # From the first of several slashes: 16 kB of slashes took 4.5 s otherwise.
        return re.compile(
            rf"~?(?<!/)/+(?:{roots})(?:/+{_PART})+/?|~/{_PART}[\w./-]*|{_SOURCE}|{_WINDOWS}"
        )

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(f"{self._rooted.pattern}|{_ANY_PATH}")


def _strip_folders(match: re.Match[str]) -> str:
    """Keep the last name of a path if it is a file's name, not a folder's."""
    name = re.split(r"[/\\]", match[0].rstrip("/\\"))[-1]
    return f"{PATH}/{name}" if _FILE.match(name) else PATH


def first_folders(texts: Iterable[str]) -> frozenset[str]:
    """The first folder of every absolute path in the texts."""
    return frozenset(
        match[1] for text in texts for match in re.finditer(r"(?<![\w.<>/])/([\w.+@-]{2,})/", text)
    )
