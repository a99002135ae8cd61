"""The cells of SQLite's table leaf pages, decoded as columns of integers.

Format: https://www.sqlite.org/fileformat2.html sections 1.6 (b-tree pages) and 2.1 (records: a
header of serial types, then the values, big-endian and as short as they fit).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.schema import MISSING

Bytes = NDArray[np.uint8]

LEAF = 13
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value by serial type 0 to 9
REAL, ZERO, TEXT = 7, 8, 12
SHIFT_OF = np.array([min(63, 64 - 8 * size) for size in SIZES])
CONSTANT = {0: MISSING, ZERO: 0, ZERO + 1: 1}  # what stands in the type itself
MORE = 0x80  # the bit of a variable-length integer's byte that says: there is another one
PREFIX = 11  # the most bytes before a row's header: its size in two, its rowid in nine
WINDOW = 128  # bytes of a cell that are looked at together
SLACK = WINDOW + 8  # zeros behind a block, so that a value near its end may be read as 8 bytes


class Unsupported(Exception):
    """A table that only SQLite itself reads; never leaves this package."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where cells that are alike have their columns: `size` bytes of payload size and `rowid`
    bytes of rowid, then the header, whose first byte is at `header`.

    `columns`: serial type and offset from the cell's start of each wanted one. `mask`: the bits
    of a cell's first words in which the cells are alike.
    """

    size: int
    header: int
    columns: Mapping[int, tuple[int, int]]
    mask: IntArray


def decode(pages: Bytes, wanted: Sequence[int], usable: int) -> dict[int, IntArray]:
    """The wanted columns of all cells of these leaf pages."""
    if (pages[:, 0] != LEAF).any():
        raise Unsupported("a damaged table")
    data = np.ndarray(pages.size + SLACK, np.uint8, pages.base)
    place = _cells(pages)
    if not len(place):
        return {column: np.empty(0, np.int64) for column in wanted}
    layout = _layout(data[place[0] : place[0] + WINDOW], wanted)
    windows = _windows(data, place, layout, wanted[-1])
    same = _alike(windows, layout.mask)
    if same.all():  # so it is in nearly every block
        return _decoded(data, place, windows, layout, usable)
    rows = np.arange(len(place))
    result = {column: np.empty(len(place), np.int64) for column in wanted}
    while True:  # rows of one layout at a time: there are few
        found = _decoded(data, place[rows[same]], windows[same], layout, usable)
        for column, values in found.items():
            result[column][rows[same]] = values
        rows, windows = rows[~same], windows[~same]
        if not len(rows):
            return result
        layout = _layout(windows[0].view(np.uint8), wanted)
        same = _alike(windows, layout.mask)


def _decoded(
    data: Bytes, place: IntArray, window: IntArray, layout: Layout, usable: int
) -> dict[int, IntArray]:
    """The columns of cells of one layout, whose first bytes are `window`."""
    head = window.view(np.uint8)
    if layout.size == 2 and _two_bytes(head) > usable - 35:
        raise Unsupported("rows that go on in other pages")
    *_, last = layout.columns
    kinds = _kinds(head[:, layout.header + 1 + last])
    return {
        column: _values(data, place, window, kinds if column == last else kind, offset)
        for column, (kind, offset) in layout.columns.items()
    }


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


def _two_bytes(head: Bytes) -> int:
    """The largest of variable-length integers of two bytes."""
    return int(((head[:, 0].astype(np.int64) & ~MORE) << 7 | head[:, 1]).max())


def _windows(data: Bytes, place: IntArray, first: Layout, last: int) -> IntArray:
    """Each cell's first bytes, shape (cells, words of 8): the header up to the last column, and
    of the values what the first cell needs. Gathered once: a column of it is then read in
    passing."""
    ends = [offset + 8 for _, offset in first.columns.values()]
    size = min(WINDOW, -(-max(*ends, PREFIX + last + 2) // 8) * 8)
    view = np.ndarray((len(data) - size,), f"V{size}", data, 0, (1,))
    return view[place].view(np.int64).reshape(-1, size // 8)


def _layout(start: Bytes, wanted: Sequence[int]) -> Layout:
    """How a cell that begins with these bytes, and those alike, are laid out."""
    cell, columns = start.tobytes(), wanted[-1] + 1
    size = _length(cell, 0)
    header = size + _length(cell, size)
    head = cell[header : header + columns + 1]
    if size > 2 or PREFIX + columns + 1 > WINDOW:
        raise Unsupported("rows that go on in other pages, or too many columns")
    if max(head) >= MORE or head[0] <= columns:
        raise Unsupported("a long text, or a column that was added later")
    mask = bytearray(-(-(header + columns + 1) // 8) * 8)
    for place in range(min(header, size + 8)):  # a ninth byte of a rowid is all value
        mask[place] = MORE
    mask[header : header + columns] = b"\xff" * columns  # the last one's size moves nobody
    offset, found = header + head[0], {}
    for column, kind in enumerate(head[1:]):
        if column in wanted:
            if kind == REAL or kind > ZERO + 1:
                raise Unsupported("a column that does not hold integers only")
            found[column] = (kind, offset)
        elif kind in (ZERO, ZERO + 1):
            mask[header + column + 1] = 0xFE  # 0 or 1, which take no space and nobody asks for
        offset += SIZES[kind] if kind < len(SIZES) else (kind - TEXT) // 2
    return Layout(size, header, found, np.frombuffer(mask, np.int64))


def _length(cell: bytes, place: int) -> int:
    """How many bytes the variable-length integer has that begins there."""
    return next((count for count in range(1, 9) if cell[place + count - 1] < MORE), 9)


def _alike(windows: IntArray, mask: IntArray) -> NDArray[np.bool_]:
    """Which cells begin like the first one."""
    differ = (windows[:, 0] ^ windows[0, 0]) & mask[0]
    for word, bits in enumerate(mask[1:], 1):
        differ |= (windows[:, word] ^ windows[0, word]) & bits
    return np.asarray(differ == 0)


def _kinds(column: Bytes) -> Bytes | int:
    """The serial types of a column by row, or the one that all have."""
    kinds = np.ascontiguousarray(column)
    if np.any((kinds == REAL) | (kinds > ZERO + 1)):
        raise Unsupported("a column that does not hold integers only")
    return int(kinds[0]) if (kinds == kinds[0]).all() else kinds


def _values(
    data: Bytes, place: IntArray, window: IntArray, kind: Bytes | int, offset: int
) -> IntArray:
    """The integers of these serial types (of one, or of one a row) at one offset in their cells."""
    if isinstance(kind, int) and not SIZES[kind]:
        return np.full(len(place), CONSTANT[kind])
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
