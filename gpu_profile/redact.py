"""Hide credentials in text that is shown or stored."""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Shape:
    """The pattern of one kind of credential, such as ghp_…

    Every match contains one of `needles`, which are fast to search for.
    """

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
_BASE64 = "[A-Za-z0-9_-]"
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
        # From the word's first letter, so that a word is read once: 64 kB of eyJeyJ… took 1 s.
        rf"(?<!{_BASE64})(?={_BASE64}*?eyJ{_BASE64}{{8}}){_BASE64}+\.{_BASE64}{{8,}}"
        rf"(?:\.{_BASE64}*)?",
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
"""Parts of names of secrets, as a pattern to be used without regard to case."""
_ASSIGNED = re.compile(
    # No `[\w-]*` before the word: a line of 8,000 dashes took 17 s.
    rf"(?i)({SECRET_WORDS}(?:[_-]?(?:id|key))?[\"']?\s*[=:]\s*[\"']?)"
    r"(?![\d.]+(?:\D|$)|true|false|none|null|<|\*\*\*)([^\s\"',;}<]{6,})"
)
"""Matches `api_key: abcdef` in free text. Numbers and short words there are rarely credentials."""
_BEARER = re.compile(r"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{16,})")
FREE_TEXT = (_ASSIGNED, _BEARER)
"""Patterns whose second group is a secret, for logs and for strings of a report."""


_HIDDEN = "***"
_SHORTEST = 6  # a shorter value would occur inside ordinary words
_PART_WORDS = (
    "pass passwd password passphrase pw passw secret secrets token tokens auth authorization jwt "
    "cookie cookies credential credentials creds apikey key pat webhook dsn"
)
_PARTS = frozenset(_PART_WORDS.split())
_ANYWHERE = re.compile(
    r"(?i)secret|passwd|password|passphrase|api_?key|access_?key|private_?key|credential|webhook"
    r"|token(?!iz|s)"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_COUNTS = re.compile(r"(?i)(?:max|min|num|n|new|per|total|keep)[\w.-]*tokens|tokens[_.-]per")
_NAME = r"-{0,2}[A-Za-z_][\w.-]*"
_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"';|&]+)+"
_SHELL_ASSIGNMENT = re.compile(rf"(?<![\w.-])({_NAME})=({_VALUE})")
_SHELL_FLAG = re.compile(rf"(?<![\w.-])(-{{1,2}}[A-Za-z][\w.-]*)(\s+)(?!-)({_VALUE})")
_HEADER = re.compile(
    # With `*` in place of 64, a line of 64 kB of `x-x-x-` took 28 s.
    r"(?i)((?:proxy-)?authorization|x-[\w-]{0,64}(?:token|key|secret)|cookie)(\s*:\s*)[^\"'\r\n]+"
)
_USER_PASSWORD = re.compile(r"([^\s:/@]+):(?!\d+$|//)\S+")
_PORT = re.compile(r"[\d.:/-]+(?:tcp|udp)?")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_USER_AND_PASSWORD = re.compile(r"(?<=://)[^/@:\s]*:[^/@\s]+(?=@)")


def redact_text(line: str) -> str:
    """Replace credentials in a log line: `token=abcdef`, `Authorization: …`, ghp_…"""
    line = _HEADER.sub(rf"\1\2{_HIDDEN}", CREDENTIAL.sub(_HIDDEN, line))
    for pattern in FREE_TEXT:
        line = pattern.sub(rf"\1{_HIDDEN}", line)
    return line


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables with names like DB_PASS and HF_TOKEN, longest first."""
    values = {value for name, value in environ.items() if is_secret(name, value)}
    return tuple(sorted((v for v in values if len(v) >= _SHORTEST), key=lambda v: (-len(v), v)))


def without(line: str, values: Iterable[str]) -> str:
    """Replace credentials and the given values in a line."""
    for value in values:
        line = line.replace(value, _HIDDEN)
    return redact_text(line)


@dataclass(frozen=True)
class SplitUrl:
    """A URL without its user and password, and these two, unquoted; both empty if it has none."""

    plain: str
    user: str = ""
    password: str = ""


def split_url(text: str) -> SplitUrl:
    """Take user and password out of an http or https URL. Other text is returned as it is."""
    if not text.startswith(("https://", "http://")):
        return SplitUrl(text)
    parts = urlsplit(text)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return SplitUrl(text)
    user, _, password = login.partition(":")
    return SplitUrl(parts._replace(netloc=host).geturl(), unquote(user), unquote(password))


def url(value: str) -> str:
    """Return a setting without a URL's user and password: `https://***@host/x`."""
    return _USER_INFO.sub(_HIDDEN, value)


def hide_url_passwords(text: str) -> str:
    """Hide the user and password of URLs in a message; `ssh://user@host` stays."""
    return _USER_AND_PASSWORD.sub(_HIDDEN, text)


def redact_argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """Replace the values of flags and assignments named like secrets in a command line.

    `--password x`, `-p x`, `-u user:pass`, `DB_PASS=x`, and the same inside a word that is a
    command itself: `bash -c 'export KEY=x'`.
    """
    return tuple(_redact_word(word, flag) for flag, word in itertools.pairwise(("", *words)))


def _redact_word(word: str, flag: str) -> str:
    """Return a word of a command line, redacted by the flag before it and its own text."""
    if flag.startswith("-") and "=" not in flag and not word.startswith("-"):
        hidden = _redact_flag_value(flag, word)
        if hidden != word:
            return hidden
    name, equals, value = word.partition("=")
    if equals and value and re.fullmatch(_NAME, name) and is_secret(name, value):
        return f"{name}={_HIDDEN}"
    return _redact_command(word) if re.search(r"\s", word) else _redact_free_text(word)


def _redact_command(line: str) -> str:
    """Redact a word that is a whole command."""
    line = _HEADER.sub(rf"\1\2{_HIDDEN}", line)
    line = _SHELL_ASSIGNMENT.sub(
        lambda m: f"{m[1]}={_HIDDEN}" if is_secret(m[1], m[2]) else m[0], line
    )
    line = _SHELL_FLAG.sub(lambda m: f"{m[1]}{m[2]}{_redact_flag_value(m[1], m[3])}", line)
    return _redact_free_text(line)


def _redact_free_text(word: str) -> str:
    hidden = redact_text(word)
    attached = re.fullmatch(r"-u(.+)", hidden)
    return f"-u{_redact_flag_value('-u', attached[1])}" if attached else hidden


def _redact_flag_value(flag: str, value: str) -> str:
    """Return a flag's value: hidden, with its user name kept, or unchanged."""
    if flag == "-p":
        return value if _PORT.fullmatch(value) else _HIDDEN
    if flag in {"-u", "--user", "--proxy-user"}:
        bare = value.strip("\"'")
        return _USER_PASSWORD.sub(rf"\1:{_HIDDEN}", bare) if ":" in bare else value
    return _HIDDEN if is_secret(flag, value) else value


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable or flag is named like a credential.

    DB_PASS, --hf-token and accessKey are; `--max-tokens 512` and `--tokenizer gpt2` are not.
    """
    if _COUNTS.search(name) and value.strip("\"'").isdigit():
        return False
    parts = {part.lower() for part in _WORDS.findall(name)}
    return bool(parts & _PARTS or _ANYWHERE.search(name))
