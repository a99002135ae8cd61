"""Integer columns straight from the pages of a SQLite file, many rows at a time.

sqlite3 makes a Python object of every cell; here numpy decodes whole blocks of pages, some ten
times faster and without SQL. Only plain tables of short rows are read (what nsys' event tables
are): anything else raises Unsupported, and the caller asks SQLite itself.

Format: https://www.sqlite.org/fileformat2.html sections 1.3 (header), 1.6 (b-tree pages) and
2.1 (records: a header of serial types, then the values, big-endian and as short as they fit).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from gpu_profile.analysis.arrays.columns import among
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store import threads
from gpu_profile.analysis.store.sqlite_cells import LEAF, SLACK, Bytes, Unsupported, decode

BLOCK = 512  # pages decoded together: 2 MiB, about what a processor's cache holds
PART = 8  # blocks: some 10^5 rows
INTERIOR = 5


class PageReader:
    """Reads one file that nobody writes; `root` below is sqlite_master's rootpage."""

    def __init__(self, path: Path) -> None:
        self._path = path
        header = np.fromfile(path, np.uint8, 100)
        size = int.from_bytes(bytes(header[16:18]), "big")
        self._size = 65536 if size == 1 else size
        self._usable = self._size - int(header[20])

    def _map(self) -> Bytes:
        """All pages, shape (pages, bytes). A mapping's touched pages count as our memory for as
        long as it lives, so it lives for one block only."""
        file = np.asarray(np.memmap(self._path, np.uint8, "r"))
        whole = len(file) // self._size
        return file[: whole * self._size].reshape(whole, self._size)

    def integers(
        self, root: int, columns: Sequence[tuple[int, ...]], only: Mapping[int, Iterable[int]]
    ) -> list[IntArray]:
        """The columns, rows in rowid order. A column is its index in the table, or two for the
        difference of the first and the second.

        `only` keeps the rows whose column (by index) holds one of the values.
        """
        blocks, decoded = self._plan(root, columns, only)
        with closing(_ahead(decoded, blocks)) as ahead:
            return _joined(ahead, len(columns), len(blocks))

    def parts(
        self, root: int, columns: Sequence[tuple[int, ...]], only: Mapping[int, Iterable[int]]
    ) -> Iterator[list[IntArray]]:
        """The same, some blocks at a time; the next ones are decoded meanwhile."""
        blocks, decoded = self._plan(root, columns, only)
        with closing(_ahead(decoded, blocks)) as ahead:
            while some := list(islice(ahead, PART // min(2, threads.COUNT))):
                yield [np.concatenate(arrays) for arrays in zip(*some, strict=True)]

    def _plan(
        self, root: int, columns: Sequence[tuple[int, ...]], only: Mapping[int, Iterable[int]]
    ) -> tuple[list[IntArray], Callable[[IntArray], list[IntArray]]]:
        """The blocks of leaf pages, and what decodes one of them."""
        wanted = sorted({*only, *(index for column in columns for index in column)})
        leaves = self._leaves(root)

        def decoded(block: IntArray) -> list[IntArray]:
            try:
                values = decode(self._block(block), wanted, self._usable)
            except IndexError as error:
                raise Unsupported("a cell points out of its page") from error
            found = [values[a] - values[b[0]] if b else values[a] for a, *b in columns]
            return _filtered(found, values, only)

        # Threads take turns at the interpreter's lock: with larger blocks less often.
        size = BLOCK * min(2, threads.COUNT)
        return [leaves[first : first + size] for first in range(0, len(leaves), size)], decoded

    def _block(self, pages: IntArray) -> Bytes:
        """Copies of the pages, shape (pages, bytes), with SLACK zeros behind the last one."""
        data = np.empty(len(pages) * self._size + SLACK, np.uint8)
        data[-SLACK:] = 0
        block, done = data[:-SLACK].reshape(len(pages), self._size), 0
        runs = np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1)
        with self._path.open("rb", buffering=0) as file:
            for run in runs:  # of pages that lie one behind the other
                file.seek(int(run[0]) * self._size)
                part = block[done : done + len(run)]
                if file.readinto(part.reshape(-1).data) != part.size:
                    raise Unsupported("a page behind the file's end")
                done += len(run)
        return block

    def _leaves(self, root: int) -> IntArray:
        """The indexes of a table's leaf pages, from left to right; all are equally deep."""
        pages, level = self._map(), np.array([root - 1])
        for _ in range(20):  # a tree of 2^31 pages is far less deep
            # Only the first page is looked at: touching every leaf would map the whole table.
            if pages[level[0], 0] == LEAF:
                return level
            level = np.concatenate([_children(pages[page]) for page in level])
        raise Unsupported("no plain table")


def _children(page: Bytes) -> IntArray:
    if page[0] != INTERIOR:
        raise Unsupported("no plain table")
    count = int.from_bytes(bytes(page[3:5]), "big")
    cells = page[12 : 12 + 2 * count].view(">u2").astype(np.int64)
    pointers = np.stack([page[cells + byte] for byte in range(4)], axis=1)
    both = np.concatenate([pointers, page[None, 8:12]])
    return np.ascontiguousarray(both).view(">u4").ravel().astype(np.int64) - 1


def _ahead(
    function: Callable[[IntArray], list[IntArray]], blocks: list[IntArray]
) -> Generator[list[IntArray], None, None]:
    """The results in order, of which only a few wait in memory to be taken."""
    if threads.COUNT == 1:
        yield from map(function, blocks)
        return
    pending: deque[Future[list[IntArray]]] = deque()
    with ThreadPoolExecutor(threads.COUNT) as pool:  # numpy lets go of the interpreter's lock
        for block in blocks:
            pending.append(pool.submit(function, block))
            if len(pending) > 2 * threads.COUNT:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _joined(parts: Iterator[list[IntArray]], columns: int, count: int) -> list[IntArray]:
    """The parts end to end. What they will need is reserved at the first one: memory that is not
    written to costs nothing, where joining at the end would need everything twice."""
    whole, used = [np.empty(0, np.int64)] * columns, 0
    for part in parts:
        length = len(part[0])
        if used + length > len(whole[0]):
            reserve = (used + length) * max(2, count + 1 if not used else 2)
            whole = [_longer(array[:used], reserve) for array in whole]
        for array, values in zip(whole, part, strict=True):
            array[used : used + length] = values
        used += length
    return [array[:used] for array in whole]


def _longer(array: IntArray, more: int) -> IntArray:
    longer = np.empty(len(array) + more, np.int64)
    longer[: len(array)] = array
    return longer


def _filtered(
    found: list[IntArray], values: Mapping[int, IntArray], only: Mapping[int, Iterable[int]]
) -> list[IntArray]:
    """The rows whose column (by index) holds one of the values."""
    if not only:
        return found
    keep = np.logical_and.reduce(
        [among(values[column], allowed) for column, allowed in only.items()]
    )
    rows = np.flatnonzero(keep)
    return found if len(rows) == len(keep) else [array[rows] for array in found]
