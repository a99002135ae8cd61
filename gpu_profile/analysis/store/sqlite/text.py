"""Texts of SQLite as Python's, in bounded length and whatever their bytes are."""

from collections.abc import Callable
from functools import lru_cache, partial

LONGEST_TEXT = 1 << 16  # bytes; the longest names of CUTLASS kernels have some 10^4
# Bytes; SQLite's own limit is 10^9 (https://www.sqlite.org/limits.html), and it may hold three
# copies.
LONGEST_VALUE = 1 << 28


def text_of(raw: bytes, notes: list[str], longest: int = LONGEST_TEXT) -> str:
    """Decode a text: invalid UTF-8 is replaced, and bytes after `longest` are cut."""
    if len(raw) > longest:
        notes.append(f"texts longer than {longest:,} bytes are cut there")
        raw = raw[:longest].decode("utf-8", "ignore").encode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        notes.append("texts that are not UTF-8 are shown with \N{REPLACEMENT CHARACTER}")
        return raw.decode("utf-8", "replace")


def make_decoder(notes: list[str], longest: int = LONGEST_TEXT) -> Callable[[bytes], str]:
    """text_of() with these arguments, which remembers 1024 texts: the names of ranges recur."""
    return lru_cache(1024)(partial(text_of, notes=notes, longest=longest))
