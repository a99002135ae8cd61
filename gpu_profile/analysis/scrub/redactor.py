"""Replace credentials, paths, users, hosts and given strings in texts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_profile.analysis.scrub.addresses import HOST, hide_addresses, hide_storage
from gpu_profile.analysis.scrub.paths import ROOTS, hide_paths, make_patterns
from gpu_profile.analysis.scrub.spellings import list_spellings
from gpu_profile.analysis.scrub.users import USER, hide_users
from gpu_profile.redact import CREDENTIALS, CommandLine

SECRET = "<secret>"
STAND_IN = re.compile(r"<(?:host\d*|user|path|secret|bucket|arn|removed)>")
"""What stands in a scrubbed text for something that was replaced."""

_COMMAND = CommandLine(SECRET)
# A public key is no credential, but it and its comment name its owner.
_PUBLIC_KEY = re.compile(
    r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-[\w-]{1,32})[ \t]+[A-Za-z0-9+/=]{12,}"
    r"(?:[ \t]+[\w.@-]+)?"
)
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
    is_short: bool = False
    """Up to three letters: replaced only in names of reports and fields about the machine."""

    @property
    def pattern(self) -> str:
        text = re.escape(self.value)
        if self.is_short:
            return rf"(?i:(?<=\.){text}(?=\.(?:\d+\.)?(?:nsys-rep|sqlite|qdstrm)))"
        if not self.word:
            return text
        # A machine called host0 must not be found in the stand-in <host0>.
        guard = rf"(?!(?<=<){text}>)" if STAND_IN.fullmatch(f"<{self.value.lower()}>") else ""
        return rf"(?i:(?<![A-Za-z0-9]){guard}{text}(?![A-Za-z0-9]))"

    @property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


@dataclass(frozen=True)
class Redactor:
    """Replaces what must not leave the machine; equal texts give equal results.

    `roots` are the first folders of paths in this report. Other words that begin with a slash can
    be names of layers ("/model/layers.0/MatMul" of ONNX) and stay, unless `everywhere`.
    `host_names` maps each host to its replacement ("<host0>"), the same in all reports of a run.
    `command_lines` maps the description's rows (name, value) that are words of a command line to
    what may stay of them.
    """

    literals: tuple[Literal, ...] = ()
    host_names: Mapping[str, str] = field(default_factory=dict)
    roots: frozenset[str] = ROOTS
    paths: bool = True
    hosts: bool = True
    users: bool = True
    command_lines: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def text(self, value: str, *, everywhere: bool = False) -> str:
        """The text without what must not leave. `everywhere`: it describes a machine or is a
        command line, so that any path, address and option is meant as one.
        """
        value = self._redact(value, everywhere)
        for spelling in list_spellings(value):
            redacted = self._redact(spelling, everywhere)
            if redacted != spelling:
                value = redacted
        return value

    def _redact(self, value: str, everywhere: bool) -> str:
        value = _COMMAND.redact_line(_PUBLIC_KEY.sub(SECRET, value))
        if self.paths:
            value = hide_paths(_MODULE_MARK.sub(r"\1", value), self._path_patterns[everywhere])
        if self.hosts:
            value = hide_storage(value)
        # Users after hosts: of a user "lab", node1.lab.tech would be left as node1.<user>.tech.
        value = self._replace_literals(value, everywhere, users=False)
        if self.hosts:
            value = hide_addresses(value, everywhere=everywhere)
            for neighbour in self._neighbours:
                value = neighbour.sub(HOST, value)
        value = self._replace_literals(value, everywhere, users=True)
        return hide_users(value, everywhere=everywhere) if self.users else value

    def _replace_literals(self, value: str, everywhere: bool, *, users: bool) -> str:
        for literal, pattern in self._literals:
            if (literal.replacement == USER) == users:
                value = pattern.sub(literal.replacement, value)
                if literal.is_short and everywhere:
                    value = replace(literal, is_short=False).regex.sub(literal.replacement, value)
        return value

    def leaks(self, value: str) -> str:
        """What kind of secret is still in the text, e.g. "a path"; "" for none. Never the secret
        itself.
        """
        kinds = (self._find_kind(spelling) for spelling in (value, *list_spellings(value)))
        return next(filter(None, kinds), "")

    def _find_kind(self, value: str) -> str:
        for shape in CREDENTIALS:
            if re.search(shape.pattern, value):
                return shape.name
        if _COMMAND.redact_line(_PUBLIC_KEY.sub(SECRET, value)) != value:
            return "a value with a secret's name"
        if any(pattern.search(value) for _, pattern in self._literals):
            return "a user, host or given string"
        if self.paths and hide_paths(value, self._path_patterns[False]) != value:
            return "a path"
        if self.users and hide_users(value) != value:
            return "a user"
        return "a host" if self.hosts and hide_addresses(hide_storage(value)) != value else ""

    @cached_property
    def _neighbours(self) -> tuple[re.Pattern[str], ...]:
        """Patterns for hosts that are named like known ones: `gpunode08` and `gpunode[01-08]` if
        gpunode07 is known, and every name in the domain of a known host.
        """
        matches = [re.fullmatch(r"([A-Za-z][A-Za-z_-]{2,})\d+", name) for name in self.host_names]
        stems = sorted({re.escape(match[1]) for match in matches if match})
        domains = {name.partition(".")[2] for name in self.host_names if name.count(".") > 1}
        number = r"(?:\d+|\[\d+(?:[-,]\d+)*\])"
        return (
            *(re.compile(rf"(?i)(?<![\w<-]){stem}{number}(?![\w-])") for stem in stems),
            *(
                re.compile(rf"(?i)(?<![\w.<-])[\w-]+\.{re.escape(domain)}(?![\w-]|\.\w)")
                for domain in sorted(domains)
                if not domain.replace(".", "").isdigit()
            ),
        )

    @cached_property
    def _literals(self) -> tuple[tuple[Literal, re.Pattern[str]], ...]:
        ordered = sorted(self.literals, key=lambda literal: literal.value)
        longest_first = sorted(ordered, key=lambda literal: -len(literal.value))
        return tuple((literal, re.compile(literal.pattern)) for literal in longest_first)

    @cached_property
    def _path_patterns(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        """For names of work, and for facts."""
        return make_patterns(self.roots)
