"""Integer columns straight from the pages of a SQLite file, many rows at a time.

sqlite3 makes a Python object of every cell; here numpy decodes whole blocks of pages. Only plain
tables of short rows are read (what nsys' event tables are). Whatever SQLite might read in another
way, or call malformed, raises Unsupported, and the caller reads it with sqlite3.

Gain, measured on a report of 0.6 M kernels and 1.4 M API calls (CPython 3.11, SQLite 3.40, seconds
of processor time): six columns of kernels take 0.06 instead of 0.62, five of API calls 0.08 instead
of 1.3, so a table of a large report takes a tenth of the time.
This module and page_cells.py could be deleted when Python's sqlite3 can fetch a column into a
buffer (SQLite's C API could; https://github.com/python/cpython has no such call in 3.14), or when
nsys exports Parquet by default: ParquetStore reads that at the same speed.

Format: https://www.sqlite.org/fileformat2.html sections 1.3 (header), 1.6 (b-tree pages) and
2.1 (records: a header of serial types, then the values, big-endian and as short as they fit).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store import threads
from gpu_profile.analysis.store.schema import subtract
from gpu_profile.analysis.store.sqlite.page_cells import (
    LEAF,
    SLACK,
    Bytes,
    Damaged,
    Unsupported,
    decode_columns,
)

# Pages decoded together: 2 MiB, about the size of a processor's cache. Twice as many took 75 MB for
# a sum over 2.4 million kernels by two threads in place of 52, and as much time.
BLOCK = 512
PART = 4  # blocks in a part: some 10^5 rows
INTERIOR = 5
INDEX = (2, 10)  # page types of an index, and of a table WITHOUT ROWID
# SQLite calls a deeper tree corrupt: BTCURSOR_MAX_DEPTH of
# https://github.com/sqlite/sqlite/blob/master/src/btreeInt.h
DEEPEST = 20
# The page with this byte of the file never belongs to a table:
# https://www.sqlite.org/fileformat2.html#the_lock_byte_page
LOCK_BYTE = 1 << 30
Convert = Callable[[list[IntArray]], list[IntArray]]


class PageReader:
    """Reads the pages of one file that is not being written; `root` is sqlite_master's rootpage.

    `page_count` is SQLite's: a file may be longer. Raises Damaged for a root or child page that
    does not exist or occurs twice, because SQLite would read the rows of such a page twice.
    """

    def __init__(self, path: Path, page_count: int) -> None:
        self._path = path
        header = np.fromfile(path, np.uint8, 100)
        size = int.from_bytes(bytes(header[16:18]), "big")
        self._size = 65536 if size == 1 else size
        self._usable = self._size - int(header[20])
        self._count = min(page_count, path.stat().st_size // self._size)

    def _map(self) -> Bytes:
        """All pages as a memory map of shape (pages, bytes).

        Pages that were read count as this process's memory as long as the map exists, so a new map
        is made for each block.
        """
        file = np.asarray(np.memmap(self._path, np.uint8, "r"))
        page_count = len(file) // self._size
        return file[: page_count * self._size].reshape(page_count, self._size)

    def integers(
        self,
        root: int,
        columns: Sequence[tuple[int, ...]],
        only: Mapping[int, Iterable[int]],
        convert: Convert = lambda arrays: arrays,
    ) -> list[IntArray]:
        """The columns, with rows in rowid order.

        A column is (index,) in the table, or (a, b) for the difference a - b. `only` keeps the
        rows whose column (by index) holds one of the values. `convert` makes other columns of those
        of some rows, in several threads; they are as wide as those of any block.
        """
        blocks, decoded = self._plan(root, columns, only)
        none = convert([np.empty(0, np.int64)] * len(columns))
        with closing(threads.map_ahead(lambda block: convert(decoded(block)), blocks)) as ahead:
            return _join_parts(ahead, none, len(blocks))

    def parts(
        self, root: int, columns: Sequence[tuple[int, ...]], only: Mapping[int, Iterable[int]]
    ) -> Iterator[list[IntArray]]:
        """As integers(), some blocks at a time; the next blocks are decoded meanwhile."""
        blocks, decoded = self._plan(root, columns, only)
        with closing(threads.map_ahead(decoded, blocks)) as ahead:
            while part := list(islice(ahead, PART)):
                yield [np.concatenate(arrays) for arrays in zip(*part, strict=True)]

    def _plan(
        self, root: int, columns: Sequence[tuple[int, ...]], only: Mapping[int, Iterable[int]]
    ) -> tuple[list[IntArray], Callable[[IntArray], list[IntArray]]]:
        """(blocks of leaf pages, function that decodes a block)."""
        column_numbers = sorted({*only, *(index for column in columns for index in column)})
        leaves = self._leaves(root)

        def decoded(block: IntArray) -> list[IntArray]:
            values = decode_columns(self._copy_pages(block), column_numbers, self._usable)
            arrays = [subtract(values[a], values[b[0]]) if b else values[a] for a, *b in columns]
            return _filter_rows(arrays, values, only)

        return [leaves[first : first + BLOCK] for first in range(0, len(leaves), BLOCK)], decoded

    def _copy_pages(self, pages: IntArray) -> Bytes:
        """Copies of the pages, shape (pages, bytes), followed by SLACK zeros."""
        data = np.empty(len(pages) * self._size + SLACK, np.uint8)
        data[-SLACK:] = 0
        block, done = data[:-SLACK].reshape(len(pages), self._size), 0
        ends = [*(np.flatnonzero(pages[1:] - pages[:-1] != 1) + 1).tolist(), len(pages)]
        with self._path.open("rb", buffering=0) as file:
            for end in ends:  # consecutive pages
                file.seek(int(pages[done]) * self._size)
                part = block[done:end]
                if file.readinto(part.reshape(-1).data) != part.size:
                    raise Unsupported("a page after the file's end")
                done = end
        return block

    def is_index(self, root: int) -> bool:
        """Whether the first page is an index's, as that of a table WITHOUT ROWID is."""
        with self._path.open("rb", buffering=0) as file:
            file.seek((root - 1) * self._size + _start(root - 1))
            kind = file.read(1)
        return bool(kind) and kind[0] in INDEX

    def count(self, root: int) -> int:
        """The rows of a table, after a check of all its pages.

        Raises Damaged, or Unsupported for a table WITHOUT ROWID.
        """
        leaves, rows = self._leaves(root), 0
        for first in range(0, len(leaves), BLOCK):
            start = _start(int(leaves[first]))
            heads = self._map()[leaves[first : first + BLOCK], start : start + 5]
            if (heads[:, 0] != LEAF).any():
                raise Damaged("a table's leaves are not equally deep")
            counts = heads[:, 3].astype(np.int64) << 8 | heads[:, 4]
            if len(leaves) > 1 and not counts.all():
                raise Damaged("a page of a table is empty")
            rows += int(counts.sum())
        return rows

    def _leaves(self, root: int) -> IntArray:
        """The indexes of a table's leaf pages, from left to right; all are at the same depth."""
        level = np.array([root - 1])
        visits = np.zeros(self._count, np.uint8)
        for _ in range(DEEPEST):
            self._visit(level, visits)
            # Only the first page of a level tells its kind: reading all leaves is the whole table.
            kind = int(self._copy_pages(level[:1])[0, _start(int(level[0]))])
            if kind == LEAF:
                return level
            if kind in INDEX:
                raise Unsupported("a table WITHOUT ROWID")
            level = np.concatenate([*self._list_below(level)])
        raise Damaged("a table is too deep")

    def _list_below(self, level: IntArray) -> Iterator[IntArray]:
        """Yield the children of each page of a level.

        The pages are read, not mapped: Linux maps up to 2 MB around each page of a map that is
        touched: 117 MB for the interior pages of the kernels of a report of 480 MB.
        """
        for first in range(0, len(level), BLOCK):
            numbers = level[first : first + BLOCK]
            for number, page in zip(numbers.tolist(), self._copy_pages(numbers), strict=True):
                yield self._list_children(page, _start(number))

    def _visit(self, level: IntArray, visits: Bytes) -> None:
        """Raise Damaged for a page that does not exist or was visited before."""
        if int(level.min()) < 0 or int(level.max()) >= self._count:
            raise Damaged("a page of a table is after the file's end")
        if (level == LOCK_BYTE // self._size).any():
            raise Damaged("a page of a table is the lock-byte page")
        before = int(np.count_nonzero(visits))
        visits[level] = 1
        if int(np.count_nonzero(visits)) != before + len(level):
            raise Damaged("a page is in a table twice")

    def _list_children(self, page: Bytes, start: int) -> IntArray:
        """The indexes of an interior page's children, from left to right."""
        head = page[start : start + 12]
        count = int.from_bytes(bytes(head[3:5]), "big")
        # Only page 1, which is shortened by the file's header, may have a right child and no
        # others.
        fewest = 0 if start else 1
        if head[0] != INTERIOR or not fewest <= count <= (self._size - 8) // 6:
            raise Damaged("a page of a table is not a b-tree page")
        # An interior page's header has 12 bytes. Its cells begin with a child's page number of 4
        # bytes (section 1.6), which are read one by one, because cells are not aligned.
        cells = page[start + 12 : start + 12 + 2 * count].view(">u2").astype(np.int64)
        if int(cells.max(initial=0)) > self._usable - 4:
            raise Damaged("a cell goes out of its page")
        pointers = np.stack([page[cells + byte] for byte in range(4)], axis=1)
        both = np.concatenate([pointers, head[None, 8:12]])
        return np.ascontiguousarray(both).view(">u4").ravel().astype(np.int64) - 1


def _start(page: int) -> int:
    """The offset of a page's b-tree header: 100 in the first page, after the file's header."""
    return 0 if page else 100


def _join_parts(
    parts: Iterator[list[IntArray]], arrays: list[IntArray], count: int
) -> list[IntArray]:
    """Concatenate the parts into arrays that are allocated at the first part.

    Memory that was allocated but never written costs nothing, while np.concatenate at the end
    would need everything twice.
    """
    used = 0
    for part in parts:
        length = len(part[0])
        if used + length > len(arrays[0]):
            # Blocks hold about as many rows as the first one; one more is for those that hold more.
            reserve = (used + length) * max(2, count + 1 if not used else 2)
            arrays = [_extend_array(array[:used], reserve) for array in arrays]
        for column, values in enumerate(part):
            wider = np.promote_types(arrays[column].dtype, values.dtype)
            arrays[column] = arrays[column].astype(wider, copy=False)
            arrays[column][used : used + length] = values
        used += length
    return [array[:used] for array in arrays]


def _extend_array(array: IntArray, more: int) -> IntArray:
    longer = np.empty(len(array) + more, array.dtype)
    longer[: len(array)] = array
    return longer


def _filter_rows(
    arrays: list[IntArray], values: Mapping[int, IntArray], only: Mapping[int, Iterable[int]]
) -> list[IntArray]:
    """The rows whose column (by index) holds one of the values."""
    if not only:
        return arrays
    keep = np.logical_and.reduce(
        [is_among(values[column], allowed) for column, allowed in only.items()]
    )
    rows = np.flatnonzero(keep)
    return arrays if len(rows) == len(keep) else [array[rows] for array in arrays]
