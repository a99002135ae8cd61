"""Hide credentials in text and command lines that are shown or stored."""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from gpu_profile.redact.replace_text import Rule, replace_after, replace_in_lines


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
        _ALONE
        + "(?:"
        + "|".join(re.escape(key) + characters for key, characters in _SERVICES.items())
        + ")",
    ),
)
CREDENTIAL = re.compile("|".join(shape.pattern for shape in CREDENTIALS))
_NEEDLES = tuple(needle for shape in CREDENTIALS for needle in shape.needles)
SECRET_WORDS = (
    r"(?:secret|token|passwd|password|passphrase|api[_-]?key|access[_-]?key|secret[_-]?key"
    r"|private[_-]?key|credentials?|webhook)"
)
"""Parts of names of secrets, as a pattern to be used without regard to case."""
_SEPARATOR = r"(?:[=:](?!:)|%3D)"
_NO_SECRET = r"(?!true\b|false\b|none\b|null\b|<|\*\*\*|\$)"
_ASSIGNED = re.compile(
    # No `[\w-]*` before the word: a line of 8,000 dashes took 17 s.
    rf"(?i)({SECRET_WORDS}(?:[_-]?(?:id|key))?[\"']?\s*{_SEPARATOR}\s*[\"']?)"
    rf"{_NO_SECRET}(?![\d.]+(?:\D|$))([^\s\"',;}}<&]{{6,}})"
)
"""Matches `api_key: abcdef` in free text. Numbers and short words there are rarely credentials."""
_QUOTED = re.compile(
    rf"(?i)({SECRET_WORDS}[\"']?\s*{_SEPARATOR}\s*[\"'])(?!<|\*\*\*|[\d.]*[\"'])"
    r"([^\"'\r\n]{1,512})(?=[\"'])"
)
_PASSWORD = re.compile(
    rf"(?i)((?:passwd|password|passphrase)[\"']?{_SEPARATOR}[ \t]?[\"']?){_NO_SECRET}"
    r"([^\s\"',;}<&]+)"
)
"""A password may be short or a number."""
_SPACED = re.compile(
    rf"(?i)((?:passwd|password|passphrase)[ \t]+=[ \t]+){_NO_SECRET}([^\r\n\"',;<]+)"
)
"""`PASSWORD = a b`: nothing tells where the value ends before the line does."""
_IN_WORDS = re.compile(rf"(?i)({SECRET_WORDS} is )(?=[^\s\d]*\d)([^\s\"',;}}<]{{6,}})")
"""`password is a1b2c3`; with a digit, because "token is invalid" is no secret."""
_SIGNED_URL = re.compile(
    r"(?i)([?&;](?:[\w-]{0,32}signature|sig|[\w-]{0,32}(?:token|credential|secret|password|key))=)"
    r"(?!<|\*\*\*)([^&\s\"'<>]+)"
)
"""A query that grants access: Azure's `sig`, `X-Amz-Signature`, `X-Goog-Credential`."""
_BEARER = re.compile(r"(?i)(\b(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{16,})")
_HEADER = re.compile(
    # With `*` in place of 64, a line of 64 kB of `x-x-x-` took 28 s.
    r"(?i)((?:(?:proxy-)?authorization|x-[\w-]{0,64}(?:token|key|secret)|cookie)\s*:\s*)"
    r"[^\"'\r\n]+"
)
_STARTS = (
    *("secret", "token", "passw", "passphrase", "api", "access", "private", "credential"),
    "webhook",
)
_PASSWORDS = ("passw", "passphrase")
FREE_TEXT: tuple[Rule, ...] = (
    (_HEADER, ("authorization", "proxy-", "x-", "cookie")),
    (_SIGNED_URL, ("?", "&", ";")),
    (_QUOTED, _STARTS),
    (_SPACED, _PASSWORDS),
    (_PASSWORD, _PASSWORDS),
    (_ASSIGNED, _STARTS),
    (_IN_WORDS, _STARTS),
    (_BEARER, ("bearer", "basic")),
)
"""For logs and for strings of a report: what follows a match's first group is a secret."""


HIDDEN = "***"
_SHORTEST = 6  # a shorter value would occur inside ordinary words
_PART_WORDS = (
    "pass passwd password passphrase pw passw secret secrets token tokens auth authorization jwt "
    "cookie cookies credential credentials creds apikey key pat webhook dsn"
)
_PARTS = frozenset(_PART_WORDS.split())
_ANYWHERE = re.compile(
    r"(?i)secret|passwd|password|passphrase|credential|webhook|token(?!iz|s)"
    r"|(?:api|access|private|account|storage|shared|signing|encryption|master|ssh|deploy)_?key"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_COUNTS = re.compile(r"(?i)(?:max|min|num|n|new|per|total|keep)[\w.-]*tokens|tokens[_.-]per")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_USER_AND_PASSWORD = re.compile(r"(?<=://)[^/@:\s]*:[^/@\s]+(?=@)")


def redact_text(line: str, stand_in: str = HIDDEN) -> str:
    """Replace credentials in a log line: `token=abcdef`, `Authorization: …`, ghp_…"""
    line = replace_in_lines(CREDENTIAL, _NEEDLES, line, stand_in, spanning="-----BEGIN ")
    return replace_after(FREE_TEXT, line, stand_in)


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of variables with names like DB_PASS and HF_TOKEN, longest first."""
    values = {value for name, value in environ.items() if is_secret(name, value)}
    return tuple(sorted((v for v in values if len(v) >= _SHORTEST), key=lambda v: (-len(v), v)))


def without(line: str, values: Iterable[str]) -> str:
    """Replace credentials and the given values in a line."""
    for value in values:
        line = line.replace(value, HIDDEN)
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
    return _USER_INFO.sub(HIDDEN, value)


def hide_url_passwords(text: str) -> str:
    """Hide the user and password of URLs in a message; `ssh://user@host` stays."""
    return _USER_AND_PASSWORD.sub(HIDDEN, text)


def is_secret(name: str, value: str = "") -> bool:
    """Return whether a variable or flag is named like a credential.

    DB_PASS, --hf-token and accessKey are; `--max-tokens 512` and `--tokenizer gpt2` are not.
    """
    if _COUNTS.search(name) and value.strip("\"'").isdigit():
        return False
    parts = {part.lower() for part in _WORDS.findall(name)}
    return bool(parts & _PARTS or _ANYWHERE.search(name))


_NAME = r"-{0,2}[A-Za-z_][\w.-]*"
_WORD = r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"';|&]+)+"
_ASSIGNMENT = re.compile(rf"(?<![\w.-])({_NAME})=({_WORD})")
_FLAG = re.compile(rf"(?<![\w.-])(-{{1,2}}[A-Za-z][\w.-]*)(\s+)(?!-)({_WORD})")
_USER_PASSWORD = re.compile(r"([^\s:/@]+):(?!\d+$|//)\S+")
_PORT = re.compile(r"[\d.:/-]+(?:tcp|udp)?")
_MYSQL = r"(?:mysql|mariadb)[\w-]*"
# 256: with `*`, a line of 64 kB of `mysql` would be searched from each of them.
_ATTACHED = re.compile(rf"(\b{_MYSQL}\b[^|;&\n]{{0,256}}?\s-p)([^\s\"'<*]+)")
"""MySQL's clients take the password in the same word: `mysql -pVALUE`."""
_COUNT_VALUE = re.compile(r"[\d.,:x*/+-]+")
_LAX_NAMES = re.compile(r"(?i)tokens?")


@dataclass(frozen=True)
class CommandLine:
    """Redacts command lines; `stand_in` replaces each secret."""

    stand_in: str = HIDDEN

    def redact_argv(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Replace the values of flags and assignments named like secrets in a command line.

        `--password x`, `-p x`, `-u user:pass`, `DB_PASS=x`, and the same inside a word that is a
        command itself: `bash -c 'export KEY=x'`.
        """
        flags = ("", *words)
        redacted = tuple(self._redact_word(word, flag) for flag, word in itertools.pairwise(flags))
        if any(re.fullmatch(_MYSQL, word.rpartition("/")[2]) for word in words):
            return tuple(re.sub(r"^-p(?![<*])\S+", f"-p{self.stand_in}", w) for w in redacted)
        return redacted

    def redact_line(self, line: str) -> str:
        """Replace the same in a text that is a whole command, or that quotes one."""
        line = _ATTACHED.sub(rf"\1{self.stand_in}", line)
        line = _ASSIGNMENT.sub(self._redact_assignment, line)
        line = _FLAG.sub(lambda m: f"{m[1]}{m[2]}{self._redact_flag_value(m[1], m[3])}", line)
        return self._redact_free_text(line)

    def _redact_word(self, word: str, flag: str) -> str:
        """Return a word of a command line, redacted by the flag before it and its own text."""
        if flag.startswith("-") and "=" not in flag and not word.startswith("-"):
            hidden = self._redact_flag_value(flag, word)
            if hidden != word:
                return hidden
        name, equals, value = word.partition("=")
        if equals and value and re.fullmatch(_NAME, name) and is_secret(name, value):
            return f"{name}={self.stand_in}"
        return self.redact_line(word) if re.search(r"\s", word) else self._redact_free_text(word)

    def _redact_assignment(self, match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        # "tokens=4096, batch 8" in the name of a range counts tokens.
        counted = _COUNT_VALUE.fullmatch(value) and _LAX_NAMES.search(name)
        if is_secret(name, value) and not counted:
            return f"{name}={self.stand_in}"
        return match[0]

    def _redact_free_text(self, word: str) -> str:
        hidden = redact_text(word, self.stand_in)
        attached = re.fullmatch(r"-u(.+)", hidden)
        return f"-u{self._redact_flag_value('-u', attached[1])}" if attached else hidden

    def _redact_flag_value(self, flag: str, value: str) -> str:
        """Return a flag's value: hidden, with its user name kept, or unchanged."""
        if flag == "-p":
            return value if _PORT.fullmatch(value) else self.stand_in
        if flag in {"-u", "--user", "--proxy-user"}:
            bare = value.strip("\"'")
            return _USER_PASSWORD.sub(rf"\1:{self.stand_in}", bare) if ":" in bare else value
        return self.stand_in if is_secret(flag, value) else value
