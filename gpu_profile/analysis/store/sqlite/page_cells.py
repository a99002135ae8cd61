"""Decode the cells of SQLite's table leaf pages as columns of integers, with numpy.

See pages.py for the reason and the gain. Format: https://www.sqlite.org/fileformat2.html
sections 1.6 (b-tree pages) and 2.1 (records: a header of serial types, then the values, big-endian
and in as few bytes as they need).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.schema import MISSING

Bytes = NDArray[np.uint8]
Lengths = NDArray[np.int32]

LEAF = 13
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value by serial type 0 to 9
REAL, ZERO, RESERVED, TEXT = 7, 8, (10, 11), 12
SIZE_OF = np.array(SIZES, np.int32)
SHIFT_OF = np.array([min(63, 64 - 8 * size) for size in SIZES])
CONSTANT = {0: MISSING, ZERO: 0, ZERO + 1: 1}  # values without bytes: NULL, 0 and 1
MORE = 0x80  # set in each byte of a varint but the last
PREFIX = 11  # the most bytes before a row's header: 2 of its size, 9 of its rowid
WINDOW = 128  # bytes of each cell that are compared and decoded
SLACK = WINDOW + 8  # zeros after a block, so that any value can be read as 8 bytes
MOST_LAYOUTS = 256  # in one block; nsys writes 1 to 5, and each costs a pass over the rows


class Unsupported(Exception):
    """A table that must be read by sqlite3 itself; caught within this package."""


class Damaged(Exception):
    """Pages that are not a b-tree; SQLite would read some rows twice, or without end."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of columns in cells of one layout.

    A cell begins with `size` bytes of payload size, then the rowid; its record header begins at
    `header`. `columns`: (serial type, offset in the cell) of each needed column. `mask`: the bits
    of a cell's first words that are equal in all cells of the layout. `is_whole`: the last needed
    column is the row's last one.
    """

    size: int
    header: int
    is_whole: bool
    columns: Mapping[int, tuple[int, int]]
    mask: IntArray


def decode_columns(pages: Bytes, columns: Sequence[int], usable: int) -> dict[int, IntArray]:
    """The given columns of all cells in these leaf pages.

    Raises Unsupported for anything that SQLite might read differently or call malformed.
    """
    if (pages[:, 0] != LEAF).any():
        raise Unsupported("a damaged table")
    data = np.ndarray(pages.size + SLACK, np.uint8, pages.base)
    place, used = _find_cells(pages, usable)
    if not len(place):
        return {column: np.empty(0, np.int64) for column in columns}
    layout = _parse_layout(data[place[0] : place[0] + WINDOW], columns)
    windows = _extract_windows(data, place, layout, columns[-1])
    same = _match_first(windows, layout.mask)
    if same.all():  # true for nearly every block
        return _decode_layout(data, place, used, windows, layout, usable)
    rows = np.arange(len(place))
    result = {column: np.empty(len(place), np.int64) for column in columns}
    for _ in range(MOST_LAYOUTS):  # rows of one layout at a time; there are few layouts
        alike, others = np.flatnonzero(same), np.flatnonzero(~same)
        chosen, window = rows[alike], windows.take(alike, axis=0)  # a mask takes thrice as long
        decoded = _decode_layout(data, place[chosen], used[chosen], window, layout, usable)
        for column, values in decoded.items():
            result[column][chosen] = values
        if not len(others):
            return result
        rows, windows = rows[others], windows.take(others, axis=0)
        layout = _parse_layout(windows[0].view(np.uint8), columns)
        same = _match_first(windows, layout.mask)
    raise Unsupported("rows of many layouts")


def _decode_layout(
    data: Bytes, place: IntArray, used: IntArray, window: IntArray, layout: Layout, usable: int
) -> dict[int, IntArray]:
    """The columns of cells that have one layout.

    `window` holds the first bytes of each cell, `used` the bytes of its page before the cell.
    """
    head = window.view(np.uint8)
    payload = _decode_two_bytes(head) if layout.size == 2 else head[:, 0].astype(np.int32)
    # A leaf keeps up to U - 35 bytes of a row in its page, and the rest in overflow pages (section
    # 1.6). A length of one byte is below 128, so it always fits: a page has 480 usable bytes.
    if layout.size == 2 and int(payload.max()) > usable - 35:
        raise Unsupported("rows that go on in other pages")
    if int((used + payload).max()) + layout.header > usable:  # the header comes after both lengths
        raise Unsupported("a cell that goes out of its page")
    *_, last = layout.columns
    kinds = _read_serial_types(head[:, layout.header + 1 + last])
    _check_values(payload, layout, kinds)
    return {
        column: _read_integers(data, place, window, kinds if column == last else kind, offset)
        for column, (kind, offset) in layout.columns.items()
    }


def _check_values(payload: Lengths, layout: Layout, kinds: Bytes | int) -> None:
    """Raise Unsupported if a row's values are longer than the row.

    This is SQLite's own test (OP_Column in vdbe.c): the values up to the needed one must end
    within the payload, or exactly at its end if the header names no further ones.
    """
    *_, (_, offset) = layout.columns.values()
    end = SIZE_OF[kinds] + (offset - layout.header)
    if (payload != end).any() if layout.is_whole else (payload < end).any():
        raise Unsupported("a row whose values are longer than itself")


def _find_cells(pages: Bytes, usable: int) -> tuple[IntArray, IntArray]:
    """The offset of each cell from the start of the first page, and from the start of its page."""
    size = pages.shape[1]
    counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
    most = int(counts.max())
    # A cell takes a pointer of 2 bytes and at least 4 of its own: MX_CELL of
    # https://github.com/sqlite/sqlite/blob/master/src/btreeInt.h
    # Only the single page of an empty table has no cells: SQLite calls others malformed.
    if most > (size - 8) // 6 or (len(pages) > 1 and not counts.all()):
        raise Unsupported("a damaged page")
    pointers = np.ascontiguousarray(pages[:, 8 : 8 + 2 * most]).view(">u2")
    used: IntArray = pointers[np.arange(most) < counts[:, None]].astype(np.int64)
    if int(used.max(initial=0)) > usable - 4:
        raise Unsupported("a cell that goes out of its page")
    return np.repeat(np.arange(len(pages)) * size, counts) + used, used


def _decode_two_bytes(head: Bytes) -> Lengths:
    """Decode varints of two bytes."""
    return (head[:, 0].astype(np.int32) & ~MORE) << 7 | head[:, 1]


def _extract_windows(data: Bytes, place: IntArray, first: Layout, last: int) -> IntArray:
    """The first bytes of each cell, shape (cells, 8-byte words).

    They hold the header up to the last needed column and the values that the first cell needs.
    They are copied once, so that each column is then read from contiguous memory.
    """
    ends = [offset + 8 for _, offset in first.columns.values()]
    size = min(WINDOW, -(-max(*ends, PREFIX + last + 2) // 8) * 8)
    view = np.ndarray((len(data) - size,), f"V{size}", data, 0, (1,))
    return view[place].view(np.int64).reshape(-1, size // 8)


def _parse_layout(start: Bytes, column_numbers: Sequence[int]) -> Layout:
    """The layout of cells that begin with these bytes."""
    cell, columns = start.tobytes(), column_numbers[-1] + 1
    size = _measure_varint(cell, 0)
    header = size + _measure_varint(cell, size)
    head = cell[header : header + columns + 1]
    # A length of three bytes is a row of 16,384 bytes or more: events have some 100.
    if size > 2 or PREFIX + columns + 1 > WINDOW:
        raise Unsupported("rows that go on in other pages, or too many columns")
    if max(head) >= MORE or head[0] <= columns:
        raise Unsupported("a long text, or a column that was added later")
    mask = bytearray(-(-(header + columns + 1) // 8) * 8)
    for place in range(min(header, size + 8)):  # the ninth byte of a varint has no flag bit
        mask[place] = MORE
    # no column follows the last one, so its size is not compared
    mask[header : header + columns] = b"\xff" * columns
    offset, places = header + head[0], {}
    for column, kind in enumerate(head[1:]):
        if column in column_numbers:
            if kind == REAL or kind > ZERO + 1:
                raise Unsupported("a column that does not hold integers only")
            places[column] = (kind, offset)
        elif kind in RESERVED:
            raise Unsupported("a damaged row")
        elif kind in (ZERO, ZERO + 1):
            # the constants 0 and 1 differ only in this bit, and the column is not needed
            mask[header + column + 1] = 0xFE
        offset += SIZES[kind] if kind < len(SIZES) else (kind - TEXT) // 2
    return Layout(size, header, head[0] == columns + 1, places, np.frombuffer(mask, np.int64))


def _measure_varint(cell: bytes, place: int) -> int:
    """The number of bytes of the varint at `place`."""
    return next((count for count in range(1, 9) if cell[place + count - 1] < MORE), 9)


def _match_first(windows: IntArray, mask: IntArray) -> NDArray[np.bool_]:
    """A mask of the cells whose first bytes equal the first cell's in the bits of `mask`."""
    differ = (windows[:, 0] ^ windows[0, 0]) & mask[0]
    for word, bits in enumerate(mask[1:], 1):
        differ |= (windows[:, word] ^ windows[0, word]) & bits
    return np.asarray(differ == 0)


def _read_serial_types(column: Bytes) -> Bytes | int:
    """The serial type of a column in each row, or one integer if all rows have the same."""
    kinds = np.ascontiguousarray(column)
    least, most = int(kinds.min()), int(kinds.max())
    if most > ZERO + 1 or (least <= REAL <= most and (kinds == REAL).any()):
        raise Unsupported("a column that does not hold integers only")
    return least if least == most else kinds


def _read_integers(
    data: Bytes, place: IntArray, window: IntArray, kind: Bytes | int, offset: int
) -> IntArray:
    """The integers at one offset in their cells; `kind` is their serial type, or one for each."""
    if isinstance(kind, int) and not SIZES[kind]:
        return np.full(len(place), CONSTANT[kind])
    size = window.shape[1] * 8
    if offset + 8 <= size:
        integers = np.ndarray((len(window),), ">i8", window, offset, (size,)).astype(np.int64)
    else:
        view = np.ndarray((len(data) - 8,), "V8", data, 0, (1,))
        integers = view[place + offset].view(">i8").astype(np.int64)
    # Eight bytes were read at each value; the shift drops those after it and keeps the sign.
    integers >>= SHIFT_OF[kind]
    if not isinstance(kind, int):
        for constant, value in CONSTANT.items():
            integers[kind == constant] = value
    return integers
