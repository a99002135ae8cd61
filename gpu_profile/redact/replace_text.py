"""Replace matches of a pattern in long texts, and read only what is near the texts that begin one.

re.sub tries a pattern without regard to case at each letter: the eight of redact read 1 MB/s.
str.find reads over 1 GB/s.
"""

import heapq
import re
from collections.abc import Iterable, Iterator

# What re.IGNORECASE takes for i and s, and str.lower() does not
# (https://docs.python.org/3/library/re.html#re.IGNORECASE).
_LIKE_ASCII = str.maketrans("\u0130\u0131\u017f", "iis")


Rule = tuple[re.Pattern[str], tuple[str, ...]]
"""A pattern, and texts in lower case: every match begins with one, in upper or lower case."""


def replace_after(rules: Iterable[Rule], text: str, stand_in: str) -> str:
    """Return the text with `stand_in` for what a match has after its first group, rule by rule."""
    lowered = _to_lower(text)
    for pattern, starts in rules:
        parts, end = list[str](), 0
        for place in _find_all(starts, lowered):
            if place >= end and (match := pattern.match(text, place)):
                parts += (text[end : match.end(1)], stand_in)
                end = match.end()
        if parts:
            text = "".join((*parts, text[end:]))
            lowered = _to_lower(text)
    return text


def replace_in_lines(
    pattern: re.Pattern[str], needles: Iterable[str], text: str, stand_in: str, spanning: str
) -> str:
    """Return the text with `stand_in` for each match.

    Every match must contain one of `needles`, and stand in one line unless the text has `spanning`.
    """
    if spanning in text:
        return pattern.sub(stand_in, text)
    parts, end = list[str](), 0
    for place in _find_all(needles, text):
        if place >= end:
            start = text.rfind("\n", end, place) + 1 or end
            stop = text.find("\n", place)
            stop = len(text) if stop < 0 else stop
            parts += (text[end:start], pattern.sub(stand_in, text[start:stop]))
            end = stop
    return "".join((*parts, text[end:]))


def _to_lower(text: str) -> str:
    """The text in lower case, each letter in its place."""
    return (text if text.isascii() else text.translate(_LIKE_ASCII)).lower()


def _find_all(words: Iterable[str], text: str) -> Iterator[int]:
    """Where one of the words begins, in ascending order."""
    return heapq.merge(*[_find_each(word, text) for word in words if word in text])


def _find_each(word: str, text: str) -> Iterator[int]:
    place = text.find(word)
    while place >= 0:
        yield place
        place = text.find(word, place + 1)
