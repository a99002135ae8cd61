"""Find texts in blobs: in Latin-1, UTF-8, and UTF-16 of both byte orders."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_LETTER = rb"[\t\n\r\x20-\x7e\xa0-\xff]"
# High bytes of the letters that occur in our languages and in spellings that hide a text: Latin,
# Greek, Cyrillic (01-04), punctuation and invisible letters (20), full-width letters (30, ff).
_HIGH = rb"[\x01-\x04\x20\x30\xff]"
_NUMBERS = "".join(map(chr, range(0x100, 0x500)))
_PLAIN = re.compile(rb"[\t\n\r\x20-\x7e\x80-\xff]{4,}")
_WIDE = (
    (re.compile(rb"(?s:" + _LETTER + rb"\x00|." + _HIGH + rb"){4,}"), "utf-16-le"),
    (re.compile(rb"(?s:\x00" + _LETTER + rb"|" + _HIGH + rb".){4,}"), "utf-16-be"),
)


@dataclass(frozen=True)
class BlobText:
    """A text in a blob, and the bytes `start` to `end` that hold it."""

    text: str
    start: int
    end: int


def list_texts(blob: bytes) -> Iterator[BlobText]:
    """The texts of four letters or more in the blob."""
    for match in _PLAIN.finditer(blob):
        yield BlobText(_decode(match[0]), match.start(), match.end())
    for pattern, encoding in _WIDE:
        for match in pattern.finditer(blob):
            yield _trim(match[0].decode(encoding, "replace"), match.start())


def _trim(text: str, start: int) -> BlobText:
    """A text of UTF-16 without the letters at its ends that are numbers: two bytes of a number
    beside a text read as a letter, and would be part of its first or last word.
    """
    trimmed = text.strip(_NUMBERS)
    start += 2 * (len(text) - len(text.lstrip(_NUMBERS)))
    return BlobText(trimmed, start, start + 2 * len(trimmed))


def redact_blob(blob: bytes, redact: Callable[[str], str]) -> bytes:
    """The blob with stars over each text that `redact` changes. Its length stays, because a
    payload is read by offsets.
    """
    redacted = bytearray(blob)
    for text in list_texts(blob):
        if redact(text.text) != text.text:
            redacted[text.start : text.end] = b"*" * (text.end - text.start)
    return bytes(redacted)


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
