"""Chains of elementwise kernels: each reads and writes whole arrays, where one kernel would do."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.columns import encode_column, is_rising, order_codes
from gpu_profile.analysis.arrays.ends import Lengths
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.edits.kernels.elementwise_work import LINK, Work

LEAST_NS = 5_000
"""Shorter kernels are neither members nor do they end a chain: what they cost is their launch."""
LEAST_MEMBERS, LEAST_MADE = 4, 3
"""Of a chain: kernels in all, and those that compute. A layer copies and casts in rows, too, for
kernels that want it so."""
LEAST_PASSES, LEAST_LOOP = 3, 6
"""A loop over tensors launches the same one to three kernels so many times, LEAST_LOOP or more in
all. They work on other arrays each, and a fused kernel reads and writes all of these."""
LOOP_PART = 0.75
"""Of a row of kernels. Two passes are a loop if they are most of it: the two normal distributions
of an option's price have the same five kernels each, of 30."""
MOST_PASS = 256
"""Kernels of a pass. An optimizer has 5 to 20, a time step of a simulation some tens."""
MOST_RATIO = 2.1
"""Of the numbers of elements in a chain. A kernel's is known by its threads, of which PyTorch lets
each have 4 or 8, by its version."""
LEAST_ARRAYS = 2
SLOW_PASS = 2.0
"""Of 72 chains of 4 to 12 kernels (4 to 64 M elements) the kernel that torch.compile made took 0.8
to 2.8 times as long as the slowest member in fp32, and 1.4 to 3.1 times in bf16, whose functions it
computes in fp32 (H200)."""
Codes = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class Chains:
    """The `rows` of the members, in order, the number of the `chain` of each, its time (ns) and
    the number of `arrays` that it reads and writes.
    """

    rows: IntArray
    chain: IntArray
    length: IntArray
    arrays: IntArray

    def of(self, rows: IntArray) -> "Chains":
        """The same kernels by their rows in another table, where those found are `rows` of it."""
        return replace(self, rows=rows[self.rows])

    def pick(self, members: IntArray) -> "Chains":
        """These members only, whole chains."""
        rows, chain, length = self.rows[members], self.chain[members], self.length[members]
        number = np.unique(chain, return_inverse=True)[1].astype(np.int64)
        return Chains(rows, number, length, self.arrays[members])

    def mark_later(self) -> Flags:
        """A mask of the members that are not the first of their chain."""
        return np.asarray(np.r_[False, np.diff(self.chain) == 0][: len(self.chain)], np.bool_)

    def measure_left(self, share: float) -> NDArray[np.float64]:
        """The part of each member's time that a fused kernel takes.

        At the least it reads and writes LEAST_ARRAYS, as fast as the fastest member an array: one
        of narrow numbers, where others are of wide ones. At the most (`share` 1) each operand that
        no member has to have written is an array of its own, takes as long as in all members, and
        the kernel SLOW_PASS of the slowest member.
        """
        if not len(self.rows):
            return np.empty(0)
        total, arrays = (np.bincount(self.chain, each) for each in (self.length, self.arrays))
        first = np.flatnonzero(~self.mark_later())
        fastest = np.minimum.reduceat(self.length / self.arrays, first)
        most = arrays - 2 * np.bincount(self.chain) + LEAST_ARRAYS
        fused = LEAST_ARRAYS + share * np.maximum(most - LEAST_ARRAYS, 0)
        left = fused * (fastest + share * (total / arrays - fastest))
        if share == 1:
            left = np.maximum(left, SLOW_PASS * np.maximum.reduceat(self.length, first))
        return np.asarray(np.minimum(left / total, 1.0)[self.chain], np.float64)


def find_chains(
    works: Sequence[Work | None],
    name: Codes,
    lane: Codes,
    start: IntArray,
    length: Lengths,
    threads: IntArray,
) -> Chains:
    """The chains among kernels, given by their columns. `works`: of each name, by find_work();
    `lane`: a number for each stream and step; `length`: the time of each kernel (ns); `threads`:
    of all its blocks.
    """
    elements = np.array([work.elements if work else 0 for work in works], np.int64)[name]
    order = _order_by_lane(lane, start)
    order = order[(elements[order] == 0) | (length[order] >= LEAST_NS)]
    count = _fill_links(elements[order] * np.where(elements == LINK, 1, threads)[order])
    codes = name[order].tolist()
    known = {code: work for code, work in enumerate(works) if work}

    @functools.lru_cache(maxsize=1024)  # the layers of a model and the steps of a run are alike
    def list_chains(kernels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        return tuple(_choose_chains([known[code] for code in kernels], _split_passes(kernels)))

    edges = [
        (row + first, row + stop)
        for row, end in _split_rows(lane[order], count)
        for first, stop in list_chains(tuple(codes[row:end]))
    ]
    place, chain = _list_places(edges)
    rows = order[place]
    arrays = np.array([work.arrays if work else 0 for work in works], np.int64)[name[rows]]
    return Chains(rows, chain, length[rows].astype(np.int64), arrays)


def _list_places(edges: Sequence[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    """The places from each first to before its end, and the number of the pair of each."""
    firsts, ends = np.array(edges, np.int64).reshape(-1, 2).T
    lengths = ends - firsts
    number = np.repeat(np.arange(len(edges)), lengths)
    offset = np.arange(len(number)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(firsts, lengths) + offset, number


def _order_by_lane(lane: Codes, start: IntArray) -> IntArray:
    """The order by lane and start; of kernels sorted by start numpy finds it in linear time."""
    if not is_rising(start):
        return np.lexsort((start, lane))
    codes, lanes = encode_column(lane)
    return order_codes(codes, len(lanes))


def join_chains(parts: Sequence[Chains]) -> Chains:
    """The chains of several parts of the kernels."""
    numbers = itertools.accumulate(
        (int(part.chain.max(initial=-1)) + 1 for part in parts), initial=0
    )
    columns = [
        (part.rows, part.chain + number, part.length, part.arrays)
        for part, number in zip(parts, numbers, strict=False)
    ]
    return Chains(*map(np.concatenate, zip(*columns, strict=True)))


def _split_rows(lane: Codes, count: IntArray) -> Iterator[tuple[int, int]]:
    """The begin and the end of each LEAST_MEMBERS kernels or more that follow each other in a
    lane with about as many elements: their `count`.
    """
    less, more = np.minimum(count[1:], count[:-1]), np.maximum(count[1:], count[:-1])
    follows = (less > 0) & (more <= MOST_RATIO * less) & (lane[1:] == lane[:-1])
    begins = np.flatnonzero(np.r_[True, ~follows][: len(count)])
    ends = np.append(begins[1:], len(count))[: len(begins)]
    is_long = ends - begins >= LEAST_MEMBERS
    yield from zip(begins[is_long].tolist(), ends[is_long].tolist(), strict=True)


def _choose_chains(
    works: Sequence[Work], parts: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The chains among these parts of a row, without links at both ends."""
    for begin, end in parts:
        members = [place for place in range(begin, end) if works[place].elements != LINK]
        made = [place for place in members if not works[place].is_copy]
        if len(made) >= LEAST_MADE and members[-1] + 1 - members[0] >= LEAST_MEMBERS:
            yield members[0], members[-1] + 1


def _fill_links(count: IntArray) -> IntArray:
    """The numbers of elements, where a link has that of the kernel before it."""
    last = np.maximum.accumulate(np.where(count == LINK, 0, np.arange(len(count))))
    return np.asarray(np.maximum(count[last], 0), np.int64)


def _split_passes(kernels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The begin and the end of each pass of loops among kernels, and of what stands between.

    Passes of less than LEAST_MEMBERS kernels are left out.
    """
    codes, is_free, begins = np.array(kernels), np.ones(len(kernels), bool), {0, len(kernels)}
    left_out = set[int]()
    most = min(MOST_PASS, len(kernels) // 2) if len(kernels) >= LEAST_LOOP else 0
    for period in range(1, most + 1):
        for first, stop in _find_loops(codes, is_free, period):
            is_free[first:stop] = False
            begins |= {*range(first, stop, period), stop}
            if period < LEAST_MEMBERS:
                left_out |= {*range(first, stop, period)}
    edges = sorted(begins)
    parts = itertools.pairwise(edges)
    return tuple((begin, end) for begin, end in parts if begin not in left_out)


def _find_loops(codes: IntArray, is_free: Flags, period: int) -> Iterator[tuple[int, int]]:
    """The begin and the end of each loop among the free kernels whose passes are so many.

    A formula may have the same kernel twice in a row: a short pass has to come LEAST_PASSES times.
    """
    least = LEAST_PASSES * period
    if period >= LEAST_MEMBERS:
        least = min(least, max(2 * period, int(LOOP_PART * len(codes))))
    least = max(least, LEAST_LOOP)
    repeats = (codes[period:] == codes[:-period]) & is_free[period:] & is_free[:-period]
    changes = np.flatnonzero(np.diff(np.r_[False, repeats, False].view(np.int8)))
    begins, ends = changes[::2], changes[1::2]
    is_long = ends + period - begins >= least
    last = 0
    for begin, end in zip(begins[is_long].tolist(), ends[is_long].tolist(), strict=True):
        first, stop = max(begin, last), end + period
        if stop - first >= least:
            last = stop
            yield first, stop
