"""Pages of an answer: each is JSON of less than 8 kB, and names the next one."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpu_profile.errors import SettingsError
from gpu_profile.redact import CommandLine

MOST_BYTES = 7_900
"""An assistant reads each answer whole, so a page is smaller than 8 kB."""
MOST_LIST_BYTES, MOST_ITEM_BYTES = 1_500, 5_000
"""The sizes of a list beside the items, such as a line a rank on what was not judged, and of one
item."""
MOST_TEXT = 300
"""The most characters of one text. Demangled kernel names have up to 4,000."""
_MOST_READ = 2000


def format_page(
    facts: Mapping[str, object], key: str, items: Sequence[object], offset: int = 0
) -> str:
    """Return `facts` and the items from `offset` on, as many as one page holds.

    `next_offset` is the offset of the next page, null on the last one. Texts of more than 300
    characters are cut and end with "…"; fractions have three decimals. Credentials in a text, such
    as the name of a range that is a command line, are `***`: they must not leave the machine. A
    list in `facts` is cut where it would fill the page, and an item larger than a page is named.
    Raises SettingsError for an offset below 0.
    """
    if offset < 0:
        raise SettingsError(f"offset {offset} is below 0", "The first page has 0")
    short_facts = {name: _fit_list(value) for name, value in _shorten(facts).items()}
    page: dict[str, Any] = {**short_facts, key: [], "of": len(items), "next_offset": None}
    size = len(_dump({**page, "next_offset": len(items)}))
    for number, item in enumerate(items[offset:], offset):
        short = _shorten(item)
        if len(_dump(short)) > MOST_ITEM_BYTES:
            short = f"item {number} is larger than a page"
        size += len(_dump(short)) + len(", ")
        if size > MOST_BYTES:
            page["next_offset"] = number
            break
        page[key].append(short)
    return _dump(page)


def format_table_page(rows: Sequence[Mapping[str, object]], claims: str, offset: int = 0) -> str:
    """Return rows as lists, with the names of their columns once, and what the rows claim."""
    columns = list(rows[0]) if rows else []
    cells = [list(row.values()) for row in rows]
    return format_page({"claims": claims, "columns": columns}, "rows", cells, offset)


def _fit_list(value: object) -> object:
    """Return a list with as many items as MOST_LIST_BYTES hold, and how many more there are."""
    if not isinstance(value, list):
        return value
    sizes = itertools.accumulate(len(_dump(item)) for item in value)
    count = sum(size <= MOST_LIST_BYTES for size in sizes)
    rest = len(value) - count
    return [*value[:count], f"and {rest} more"] if rest else value


def _dump(value: object) -> str:
    """Return ASCII, in which a byte is a character."""
    return json.dumps(value)


def _shorten(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, str):
        text = CommandLine().redact_line(value[:_MOST_READ])  # before a cut shows half of a secret
        return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
    if isinstance(value, Mapping):
        return {name: _shorten(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_shorten, value))
    return value
