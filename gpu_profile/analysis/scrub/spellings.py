"""Write a text as a reader would read it: without invisible letters and without URL quoting."""

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_QUOTED = re.compile(r"%[0-9A-Fa-f]{2}")
_FULL_STOPS = {0x3002: ".", 0xFF0E: ".", 0xFF61: "."}
"""These end a label of a host's name as a dot does (RFC 3490, section 3.1)."""


def list_spellings(text: str) -> Iterator[str]:
    """Other spellings of the same text, if it has any."""
    plain = text
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).translate(_FULL_STOPS)
        if plain != text:
            yield plain
    if _QUOTED.search(plain):
        yield unquote(plain, errors="replace")
