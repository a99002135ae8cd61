"""Search a scrubbed copy for leaks without the patterns that scrubbed it.

An error in a pattern would also hide from a check by the same pattern. So texts are split into
words here, and parsed as addresses, URLs, assignments and command lines.
"""

import ipaddress
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from gpu_profile.analysis.scrub.addresses import is_machine_ipv6
from gpu_profile.redact import is_secret

_CUT = re.compile(r"[\s\"'`,;|(){}<>]+")
_STAND_IN = "<"
_REPLACED = re.compile(r"<[a-z]+\d*>")
_NUMBERS = re.compile(r"[\d.,:x*/+-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffd]+")
# UTF-16 twice each, because a text can begin at an odd byte.
_ENCODINGS = (
    *(("utf-8", 0), ("latin-1", 0)),
    *((name, skip) for name in ("utf-16-le", "utf-16-be") for skip in (0, 1)),
)
_STORAGE_SCHEMES = "s3 s3a s3n gs gcs abfs abfss wasb wasbs az hdfs"
_STORAGE = frozenset(_STORAGE_SCHEMES.split())
_SHORTEST = 4


def search_copy(copy: Path, names: Collection[str]) -> str:
    """What of the original is still in the copy, and in which column; "" for nothing.

    `names`: hosts, users and credentials from the original's description.
    """
    lowered = frozenset(name.lower() for name in names if len(name) >= _SHORTEST)
    look = lru_cache(maxsize=1 << 16)(lambda value: _find_in_value(value, lowered))
    uri = f"{copy.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        database.text_factory = lambda raw: raw.decode("utf-8", "replace")
        for table, column, value in _list_values(database):
            if what := look(value):
                return f"{what} in {table}.{column}"
    return ""


def _list_values(database: sqlite3.Connection) -> Iterator[tuple[str, str, str | bytes]]:
    tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for column in [row[0] for row in database.execute(f'SELECT * FROM "{table}"').description]:
            condition = f"typeof(\"{column}\") IN ('text', 'blob')"
            for (value,) in database.execute(f'SELECT "{column}" FROM "{table}" WHERE {condition}'):
                yield table, column, value


def _find_in_value(value: str | bytes, names: frozenset[str]) -> str:
    """What find_leak finds in a text, or in a blob that is read in each of _ENCODINGS."""
    if isinstance(value, str):
        return find_leak(value, names)
    texts = (value[skip:].decode(name, "replace") for name, skip in _ENCODINGS)
    leaks = (find_leak(_CONTROL.sub(" ", text), names) for text in texts)
    return next(filter(None, leaks), "")


def find_leak(text: str, names: frozenset[str]) -> str:
    """The kind of leak in a text, e.g. "an address"; "" for none. Never the secret itself."""
    spaced = text.replace("<", " <").replace(">", "> ").split()
    words = [word for word in _CUT.split(_REPLACED.sub(" ", text)) if word]
    if any(_is_name(word, names) for word in words):
        return "a user, host or credential of the original"
    if any(_is_address(part) for word in words for part in re.split(r"[/@=]", word)):
        return "an address"
    if any(_holds_url_secret(word) for word in spaced):
        return "a URL's password or bucket"
    return "a credential's assignment" if any(_is_assignment(word) for word in spaced) else ""


def _is_name(word: str, names: frozenset[str]) -> bool:
    parts = {word.lower(), *re.split(r"[^a-z0-9_-]+", word.lower())}
    return bool(names & parts)


def _is_address(word: str) -> bool:
    bare = word.strip("[]/@").partition("%")[0]
    host, _, port = bare.rpartition(":")
    if host.count(".") == 3 and port.isdigit():
        bare = host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    if address.version == 6:
        return is_machine_ipv6(bare)
    return not address.is_loopback and not address.is_unspecified and address.is_private


def _holds_url_secret(word: str) -> bool:
    if "://" not in word:
        return False
    try:
        parts = urlsplit(word[word.rfind(" ") + 1 :])
        stored = parts.scheme.lower() in _STORAGE and bool(parts.netloc)
        return stored or (parts.password is not None and parts.password.strip("*") != "")
    except ValueError:
        return False


def _is_assignment(word: str) -> bool:
    name, equals, value = word.strip("\"'").partition("=")
    plain = value.strip("\"'")
    if not equals or len(plain) < 6 or plain.startswith((_STAND_IN, "*", "$")):
        return False
    names_secret = name.lstrip("-").replace("-", "_").isidentifier() and is_secret(name, plain)
    return names_secret and not _NUMBERS.fullmatch(plain)
