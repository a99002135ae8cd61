"""Check a scrubbed report: search every value again, then every byte of the file."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from gpu_profile.analysis.scrub.blobs import list_texts
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.redact import CREDENTIALS

_CHUNK = 16 << 20
_OVERLAP = 8 << 10  # no credential needs more bytes to be recognised


def verify_copy(path: Path, redactor: Redactor) -> str:
    """The kind of leak in the file and its place; "" for none."""
    return _search_values(path, redactor) or _search_bytes(path, redactor)


def _search_values(path: Path, redactor: Redactor) -> str:
    """Search the values. Long values are split over several pages, so a search of bytes misses
    them.
    """
    text_leaks = lru_cache(maxsize=1 << 16)(redactor.leaks)
    blob_leaks = lru_cache(maxsize=1 << 16)(
        lambda blob: next(filter(None, (redactor.leaks(t.text) for t in list_texts(blob))), "")
    )
    uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as copy:
        for table, column in _list_columns(copy):
            condition = f"typeof(\"{column}\") IN ('text', 'blob')"
            for (value,) in copy.execute(f'SELECT "{column}" FROM "{table}" WHERE {condition}'):
                if what := (blob_leaks if isinstance(value, bytes) else text_leaks)(value):
                    return f"{what} in {table}.{column}"
    return ""


def _list_columns(copy: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for (table,) in tables:
        for row in copy.execute(f'PRAGMA table_info("{table}")').fetchall():
            yield table, row[1]


def _search_bytes(path: Path, redactor: Redactor) -> str:
    with path.open("rb") as file:
        tail = b""
        while chunk := file.read(_CHUNK):
            if what := _search_chunk(tail + chunk, redactor):
                return f"{what} in the file's bytes before {file.tell()}"
            # What is cut by the end of a chunk is whole in the next one.
            tail = chunk[-_OVERLAP:]
    return ""


def _search_chunk(chunk: bytes, redactor: Redactor) -> str:
    for shape in CREDENTIALS:
        pattern = re.compile(shape.pattern.encode())
        for needle in shape.needles:
            if any(pattern.search(chunk, at, at + _OVERLAP) for at in _find_places(chunk, needle)):
                return shape.name
    lowered = chunk.lower()
    for literal in redactor.literals:
        needle = literal.value if not literal.word else literal.value.lower()
        pattern = re.compile(literal.pattern.encode())
        text = lowered if literal.word else chunk
        if any(pattern.match(chunk, at) for at in _find_places(text, needle)):
            return "a user, host or given string"
    return ""


def _find_places(chunk: bytes, needle: str) -> Iterator[int]:
    """Yield the offsets of a string; bytes.find is many times faster than the regex."""
    needle_bytes = needle.encode()
    at = chunk.find(needle_bytes)
    while at >= 0:
        yield at
        at = chunk.find(needle_bytes, at + 1)
