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
Lengths = NDArray[np.int32]

LEAF = 13
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of a value by serial type 0 to 9
REAL, ZERO, RESERVED, TEXT = 7, 8, (10, 11), 12
SIZE_OF = np.array(SIZES, np.int32)
SHIFT_OF = np.array([min(63, 64 - 8 * size) for size in SIZES])
CONSTANT = {0: MISSING, ZERO: 0, ZERO + 1: 1}  # what stands in the type itself
MORE = 0x80  # the bit of a variable-length integer's byte that says: there is another one
PREFIX = 11  # the most bytes before a row's header: its size in two, its rowid in nine
WINDOW = 128  # bytes of a cell that are looked at together
SLACK = WINDOW + 8  # zeros behind a block, so that a value near its end may be read as 8 bytes
MOST_LAYOUTS = 256  # of one block; nsys writes 1 to 5, and each one costs a pass over the rows


class Unsupported(Exception):
    """A table that only SQLite itself reads; never leaves this package."""


class Damaged(Exception):
    """Pages that are no b-tree, of which SQLite would read rows twice, or without end."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where cells that are alike have their columns: `size` bytes of payload size and `rowid`
    bytes of rowid, then the header, whose first byte is at `header`.

    `columns`: serial type and offset from the cell's start of each wanted one. `mask`: the bits
    of a cell's first words in which the cells are alike. `is_whole`: the last wanted column is
    the row's last one.
    """

    size: int
    header: int
    is_whole: bool
    columns: Mapping[int, tuple[int, int]]
    mask: IntArray


def decode_columns(pages: Bytes, columns: Sequence[int], usable: int) -> dict[int, IntArray]:
    """The wanted columns of all cells of these leaf pages.

    Raises Unsupported for anything that SQLite might read in another way, or call malformed.
    """
    if (pages[:, 0] != LEAF).any():
        raise Unsupported("a damaged table")
    data = np.ndarray(pages.size + SLACK, np.uint8, pages.base)
    place = _find_cells(pages, usable)
    if not len(place):
        return {column: np.empty(0, np.int64) for column in columns}
    layout = _parse_layout(data[place[0] : place[0] + WINDOW], columns)
    windows = _extract_windows(data, place, layout, columns[-1])
    same = _match_first(windows, layout.mask)
    used = place & pages.shape[1] - 1  # a page has 2^n bytes
    if same.all():  # so it is in nearly every block
        return _decode_layout(data, place, used, windows, layout, usable)
    rows = np.arange(len(place))
    result = {column: np.empty(len(place), np.int64) for column in columns}
    for _ in range(MOST_LAYOUTS):  # rows of one layout at a time: there are few
        mine = rows[same]
        decoded = _decode_layout(data, place[mine], used[mine], windows[same], layout, usable)
        for column, values in decoded.items():
            result[column][mine] = values
        rows, windows = rows[~same], windows[~same]
        if not len(rows):
            return result
        layout = _parse_layout(windows[0].view(np.uint8), columns)
        same = _match_first(windows, layout.mask)
    raise Unsupported("rows of many layouts")


def _decode_layout(
    data: Bytes, place: IntArray, used: IntArray, window: IntArray, layout: Layout, usable: int
) -> dict[int, IntArray]:
    """The columns of cells of one layout, whose first bytes are `window`. `used`: the bytes of
    each cell's page before the cell."""
    head = window.view(np.uint8)
    payload = _two_bytes(head) if layout.size == 2 else head[:, 0].astype(np.int32)
    if layout.size == 2 and int(payload.max()) > usable - 35:
        raise Unsupported("rows that go on in other pages")
    if int((used + payload).max()) + layout.header > usable:  # the header is behind both lengths
        raise Unsupported("a cell that goes out of its page")
    *_, last = layout.columns
    kinds = _read_serial_types(head[:, layout.header + 1 + last])
    _check_values(payload, layout, kinds)
    return {
        column: _read_integers(data, place, window, kinds if column == last else kind, offset)
        for column, (kind, offset) in layout.columns.items()
    }


def _check_values(payload: Lengths, layout: Layout, kinds: Bytes | int) -> None:
    """Raises Unsupported where a row's values are longer than the row.

    SQLite's own test, in OP_Column of its vdbe.c: the values up to the wanted one must end within
    the payload, and exactly with it where they are all that the header names.
    """
    *_, (_, offset) = layout.columns.values()
    end = SIZE_OF[kinds] + (offset - layout.header)
    if (payload != end).any() if layout.is_whole else (payload < end).any():
        raise Unsupported("a row whose values are longer than itself")


def _find_cells(pages: Bytes, usable: int) -> IntArray:
    """Where each cell starts, counted from the first page's start."""
    size = pages.shape[1]
    counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
    most = int(counts.max())
    # A page without cells is only ever a table's only one: SQLite calls others malformed.
    if most > (size - 8) // 6 or (len(pages) > 1 and not counts.all()):
        raise Unsupported("a damaged page")
    pointers = np.ascontiguousarray(pages[:, 8 : 8 + 2 * most]).view(">u2")
    within = np.arange(most) < counts[:, None]
    if most and int(pointers.max(where=within, initial=0)) > usable - 4:
        raise Unsupported("a cell that goes out of its page")
    starts = np.arange(len(pages))[:, None] * size + pointers
    cell_starts: IntArray = starts[within]
    return cell_starts


def _two_bytes(head: Bytes) -> Lengths:
    """Variable-length integers of two bytes."""
    return (head[:, 0].astype(np.int32) & ~MORE) << 7 | head[:, 1]


def _extract_windows(data: Bytes, place: IntArray, first: Layout, last: int) -> IntArray:
    """Each cell's first bytes, shape (cells, words of 8): the header up to the last column, and
    of the values what the first cell needs. Gathered once: a column of it is then read in
    passing."""
    ends = [offset + 8 for _, offset in first.columns.values()]
    size = min(WINDOW, -(-max(*ends, PREFIX + last + 2) // 8) * 8)
    view = np.ndarray((len(data) - size,), f"V{size}", data, 0, (1,))
    return view[place].view(np.int64).reshape(-1, size // 8)


def _parse_layout(start: Bytes, column_numbers: Sequence[int]) -> Layout:
    """How a cell that begins with these bytes, and those alike, are laid out."""
    cell, columns = start.tobytes(), column_numbers[-1] + 1
    size = _measure_varint(cell, 0)
    header = size + _measure_varint(cell, size)
    head = cell[header : header + columns + 1]
    if size > 2 or PREFIX + columns + 1 > WINDOW:
        raise Unsupported("rows that go on in other pages, or too many columns")
    if max(head) >= MORE or head[0] <= columns:
        raise Unsupported("a long text, or a column that was added later")
    mask = bytearray(-(-(header + columns + 1) // 8) * 8)
    for place in range(min(header, size + 8)):  # a ninth byte of a rowid is all value
        mask[place] = MORE
    mask[header : header + columns] = b"\xff" * columns  # the last one's size moves nobody
    offset, places = header + head[0], {}
    for column, kind in enumerate(head[1:]):
        if column in column_numbers:
            if kind == REAL or kind > ZERO + 1:
                raise Unsupported("a column that does not hold integers only")
            places[column] = (kind, offset)
        elif kind in RESERVED:
            raise Unsupported("a damaged row")
        elif kind in (ZERO, ZERO + 1):
            mask[header + column + 1] = 0xFE  # 0 or 1, which take no space and nobody asks for
        offset += SIZES[kind] if kind < len(SIZES) else (kind - TEXT) // 2
    return Layout(size, header, head[0] == columns + 1, places, np.frombuffer(mask, np.int64))


def _measure_varint(cell: bytes, place: int) -> int:
    """How many bytes the variable-length integer has that begins there."""
    return next((count for count in range(1, 9) if cell[place + count - 1] < MORE), 9)


def _match_first(windows: IntArray, mask: IntArray) -> NDArray[np.bool_]:
    """Which cells begin like the first one."""
    differ = (windows[:, 0] ^ windows[0, 0]) & mask[0]
    for word, bits in enumerate(mask[1:], 1):
        differ |= (windows[:, word] ^ windows[0, word]) & bits
    return np.asarray(differ == 0)


def _read_serial_types(column: Bytes) -> Bytes | int:
    """The serial types of a column by row, or the one that all have."""
    kinds = np.ascontiguousarray(column)
    if np.any((kinds == REAL) | (kinds > ZERO + 1)):
        raise Unsupported("a column that does not hold integers only")
    return int(kinds[0]) if (kinds == kinds[0]).all() else kinds


def _read_integers(
    data: Bytes, place: IntArray, window: IntArray, kind: Bytes | int, offset: int
) -> IntArray:
    """The integers of these serial types (of one, or of one a row) at one offset in their cells."""
    if isinstance(kind, int) and not SIZES[kind]:
        return np.full(len(place), CONSTANT[kind])
    size = window.shape[1] * 8
    if offset + 8 <= size:
        integers = np.ndarray((len(window),), ">i8", window, offset, (size,)).astype(np.int64)
    else:
        view = np.ndarray((len(data) - 8,), "V8", data, 0, (1,))
        integers = view[place + offset].view(">i8").astype(np.int64)
    integers >>= SHIFT_OF[kind]
    if not isinstance(kind, int):
        for constant, value in CONSTANT.items():
            integers[kind == constant] = value
    return integers
