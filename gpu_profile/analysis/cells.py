"""The cells of SQLite's table leaf pages, decoded as columns of integers.

Format: https://www.sqlite.org/fileformat2.html sections 1.6 (b-tree pages) and 2.1 (records: a
header of serial types, then the values, big-endian and as short as they fit).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.schema import MISSING, IntArray

Bytes = NDArray[np.uint8]

LEAF = 13
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value by serial type 0 to 9
REAL, ZERO, TEXT = 7, 8, 12
SHIFT_OF = np.array([min(63, 64 - 8 * size) for size in SIZES])
CONSTANT = {0: MISSING, ZERO: 0, ZERO + 1: 1}  # what stands in the type itself
WINDOW = 128  # bytes of a row that are looked at together
SLACK = WINDOW + 8  # zeros behind a block, so that a value near its end may be read as 8 bytes


class Unsupported(Exception):
    """A table that only SQLite itself reads; never leaves this package."""


def decode(pages: Bytes, wanted: Sequence[int], usable: int) -> dict[int, IntArray]:
    """The wanted columns of all cells of these leaf pages."""
    if (pages[:, 0] != LEAF).any():
        raise Unsupported("a damaged table")
    data = np.ndarray(pages.size + SLACK, np.uint8, pages.base)
    place = _behind_varint(data, _cells(pages), usable - 35)  # the payload's length
    place = _behind_rowid(data, place)
    result = {column: np.empty(len(place), np.int64) for column in wanted}
    windows = _windows(data, place, wanted)
    rows: IntArray | slice = slice(None)
    while len(windows):  # rows of one layout at a time: there are few
        layout, mask = _layout(windows[0].view(np.uint8), wanted)
        same = _alike(windows, mask)
        whole = bool(same.all())
        mine, window = (rows, windows) if whole else (_where(rows, same), windows[same])
        for column, (kind, offset) in layout.items():
            kinds = _kinds(window, column) if column == wanted[-1] else kind
            result[column][mine] = _values(data, place[mine], window, kinds, offset)
        if whole:
            break
        rows, windows = _where(rows, ~same), windows[~same]
    return result


def _where(rows: IntArray | slice, chosen: NDArray[np.bool_]) -> IntArray:
    return np.flatnonzero(chosen) if isinstance(rows, slice) else rows[chosen]


def _cells(pages: Bytes) -> IntArray:
    """Where each cell starts, counted from the first page's start."""
    counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
    most = int(counts.max())
    pointers = np.ascontiguousarray(pages[:, 8 : 8 + 2 * most]).view(">u2")
    if pointers.shape[1] < most:
        raise Unsupported("a damaged page")
    starts = np.arange(len(pages))[:, None] * pages.shape[1] + pointers
    found: IntArray = starts[np.arange(most) < counts[:, None]]
    return found


def _behind_rowid(data: Bytes, place: IntArray) -> IntArray:
    """Rowids rise, so that all are as long as the first and the last where these are equal."""
    if len(place):
        lengths = {_length(data[at : at + 9]) for at in (int(place[0]), int(place[-1]))}
        if len(lengths) == 1:
            return place + lengths.pop()
    return _behind_varint(data, place)


def _length(head: Bytes) -> int:
    ends = np.flatnonzero(head < 0x80)
    return int(ends[0]) + 1 if len(ends) else len(head)


def _behind_varint(data: Bytes, place: IntArray, most: int = 0) -> IntArray:
    """The places behind the variable-length integers at these; `most`: how large they may be."""
    byte = data[place]
    if most and _two_bytes(data, place, byte) > most:
        raise Unsupported("rows that go on in other pages")
    place = place + 1
    for _ in range(8):
        more = byte >= 0x80
        if not more.any():
            break
        byte = np.where(more, data[place], 0)
        place += more
    return place


def _two_bytes(data: Bytes, place: IntArray, byte: Bytes) -> int:
    """The largest of variable-length integers of up to two bytes; a larger one counts as such."""
    if not len(byte) or byte.max() < 0x80:
        return 0x7F
    second = data[place + 1][byte >= 0x80].astype(np.int64)
    first = byte[byte >= 0x80].astype(np.int64) & 0x7F
    return int(np.where(second >= 0x80, np.iinfo(np.int64).max, first << 7 | second).max())


def _windows(data: Bytes, place: IntArray, wanted: Sequence[int]) -> IntArray:
    """Each row's first bytes, shape (rows, words of 8): the header as far as it is needed, and of
    the values what the first row needs. Gathered once: a column of it is then read in passing."""
    if wanted[-1] + 2 > WINDOW:
        raise Unsupported("too many columns")
    if not len(place):
        return np.empty((0, 1), np.int64)
    first = data[place[0] : place[0] + WINDOW]
    ends = [offset + 8 for _, offset in _layout(first, wanted)[0].values()]
    size = min(WINDOW, -(-max(*ends, wanted[-1] + 2) // 8) * 8)
    view = np.ndarray((len(data) - size,), f"V{size}", data, 0, (1,))
    return view[place].view(np.int64).reshape(-1, size // 8)


def _layout(head: Bytes, wanted: Sequence[int]) -> tuple[dict[int, tuple[int, int]], IntArray]:
    """Serial type and offset of each wanted column, for rows whose header is `head`; and the
    bits of the first words in which such rows are alike."""
    columns = wanted[-1] + 1
    if int(head[: columns + 1].max(initial=0)) >= 0x80 or int(head[0]) <= columns:
        raise Unsupported("a long text, or a column that was added later")
    mask = np.zeros(-(-(columns + 1) // 8) * 8, np.uint8)
    mask[: columns + 1] = 0xFF
    offset, layout = int(head[0]), {}
    for column in range(columns):
        kind = int(head[column + 1])
        if column in wanted:
            if kind == REAL or kind > ZERO + 1:
                raise Unsupported("a column that does not hold integers only")
            layout[column] = (kind, offset)
        elif kind in (ZERO, ZERO + 1):
            mask[column + 1] = 0xFE  # 0 or 1, which take no space and nobody asks for
        offset += SIZES[kind] if kind < len(SIZES) else (kind - TEXT) // 2
    mask[columns] = 0  # the last one's size moves nobody
    return layout, mask.view(np.int64)


def _alike(windows: IntArray, mask: IntArray) -> NDArray[np.bool_]:
    same = np.ones(len(windows), bool)
    for word, bits in enumerate(mask):
        same &= (windows[:, word] ^ windows[0, word]) & bits == 0
    return same


def _kinds(window: IntArray, column: int) -> Bytes | int:
    """The serial types of a column by row, or the one that all have."""
    kinds = window.view(np.uint8)[:, column + 1]
    if np.any((kinds == REAL) | (kinds > ZERO + 1)):
        raise Unsupported("a column that does not hold integers only")
    return int(kinds[0]) if (kinds == kinds[0]).all() else kinds


def _values(
    data: Bytes, place: IntArray, window: IntArray, kind: Bytes | int, offset: int
) -> IntArray | int:
    """The integers of these serial types (of one, or of one a row) at one offset in their rows."""
    if isinstance(kind, int) and not SIZES[kind]:
        return CONSTANT[kind]
    size = window.shape[1] * 8
    if offset + 8 <= size:
        found = np.ndarray((len(window),), ">i8", window, offset, (size,)).astype(np.int64)
    else:
        view = np.ndarray((len(data) - 8,), "V8", data, 0, (1,))
        found = view[place + offset].view(">i8").astype(np.int64)
    found >>= SHIFT_OF[kind]
    if not isinstance(kind, int):
        for constant, value in CONSTANT.items():
            found[kind == constant] = value
    return found
