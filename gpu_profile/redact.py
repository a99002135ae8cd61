"""Hide what looks like a credential in text that people or files will keep."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A credential's shape. `needles`: one of them is in every match; finding them is cheap."""

    name: str
    needles: tuple[str, ...]
    pattern: str


_AWS = ("AKIA", "ASIA", "AROA", "AIDA", "AGPA")
_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")
_SERVICES = {
    "hf_": "[A-Za-z0-9]{16,}",
    "glpat-": "[A-Za-z0-9_-]{20,}",
    "sk-": "[A-Za-z0-9_-]{20,}",
    "xox": "[abeoprs]-[A-Za-z0-9-]{10,}",
    "nvapi-": "[A-Za-z0-9_-]{20,}",
    "npm_": "[A-Za-z0-9]{36}",
    "pypi-": "[A-Za-z0-9_-]{20,}",
    "dckr_pat_": "[A-Za-z0-9_-]{20,}",
    "AIza": "[A-Za-z0-9_-]{35}",
    "ya29.": "[A-Za-z0-9_-]{20,}",
}
_ALONE = "(?<![A-Za-z0-9])"
CREDENTIALS = (
    Shape("an AWS access key", _AWS, rf"{_ALONE}(?:{'|'.join(_AWS)})[A-Z0-9]{{16}}(?![A-Za-z0-9])"),
    Shape(
        "a private key",
        ("-----BEGIN ",),
        r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]*?-----END [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----|[\s\S]*)",
    ),
    Shape(
        "a JSON web token",
        ("eyJ",),
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",
    ),
    Shape(
        "a URL with a password",
        ("://",),
        r"(?<=://)(?:(?![/:@<>\"'])[!-~]){0,128}:(?:(?![/@<>\"'])[!-~]){1,256}(?=@)",
    ),
    Shape("a GitHub token", _GITHUB, rf"{_ALONE}(?:{'|'.join(_GITHUB)})[A-Za-z0-9_]{{20,}}"),
    Shape(
        "a service's token",
        tuple(_SERVICES),
        _ALONE + "(?:" + "|".join(re.escape(key) + rest for key, rest in _SERVICES.items()) + ")",
    ),
)
CREDENTIAL = re.compile("|".join(shape.pattern for shape in CREDENTIALS))
SECRET_WORDS = (
    r"(?:secret|token|passwd|password|passphrase|api[_-]?key|access[_-]?key|secret[_-]?key"
    r"|private[_-]?key|credentials?|webhook)"
)
"""What the names of secrets are made of; for a pattern that ignores case."""


_HIDDEN = "***"
_NAME = rf"[\w.-]*{SECRET_WORDS}[\w.-]*"
_ASSIGNED = re.compile(rf"(?i)^(-{{0,2}}{_NAME})=(.+)$", re.DOTALL)
_FLAG = re.compile(rf"(?i)^-{{1,2}}{_NAME}$")


def text(line: str) -> str:
    return CREDENTIAL.sub(_HIDDEN, line)


def argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command line without the values of flags and assignments named like secrets."""
    hidden: list[str] = []
    for index, word in enumerate(words):
        assigned = _ASSIGNED.match(word)
        if assigned:
            hidden.append(f"{assigned[1]}={_HIDDEN}")
        elif index and _FLAG.match(words[index - 1]) and not word.startswith("-"):
            hidden.append(_HIDDEN)
        else:
            hidden.append(text(word))
    return tuple(hidden)
