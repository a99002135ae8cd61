"""Chains of elementwise kernels: each reads and writes whole arrays, where one kernel would do."""

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.ends import Lengths
from gpu_profile.analysis.arrays.types import Flags, IntArray

LEAST_NS = 5_000
"""Shorter kernels are neither members nor do they end a chain: what they cost is their launch."""
LEAST_MEMBERS, LEAST_MADE = 4, 3
"""Of a chain: kernels in all, and those that compute. A layer copies and casts in rows, too, for
kernels that want it so."""
LEAST_PASSES, LEAST_LOOP = 3, 6
"""A loop over tensors launches the same one to three kernels so many times, LEAST_LOOP or more in
all. They work on other arrays each, and a fused kernel reads and writes all of these."""
MOST_RATIO = 2.1
"""Of the numbers of elements in a chain. A kernel's is known by its threads, of which PyTorch lets
each have 4 or 8, by its version."""
LEAST_ARRAYS = 2
_CUPY = re.compile(r"cupy_(\w+?)__(\w+)$")
_TORCH = re.compile(
    r"at::native::((?P<vectors>vectorized(_templated)?_elementwise_kernel)"
    r"|unrolled(_templated)?_elementwise_kernel"
    r"|elementwise_kernel<(\(int\))?\d+, *(\(int\))?(?P<elements>\d+),)"
)
_POINTERS = re.compile(r"array<char ?\*, *(?:\(unsigned long\))?(\d)")
_COPIES = re.compile(r"copy_kernel|FillFunctor")
_UNARY = re.compile(r"[AB]UnaryFunctor|CUDAFunctorOn")
_BINARY = re.compile(r"BinaryFunctor|CUDAFunctor_add")
_LAMBDA = re.compile(r"lambda ?\(([^()]+)\)")
Codes = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True)
class Work:
    """What an elementwise kernel does, by its full name: the number of `arrays` that it reads and
    writes, whether it only copies, casts or fills, and how many `elements` a thread has.
    """

    arrays: int
    is_copy: bool
    elements: int


@functools.lru_cache(maxsize=1024)  # each name is asked for by the fact and by the replay
def find_work(name: str) -> Work | None:
    """The work of an elementwise kernel of PyTorch or CuPy; None for others."""
    if match := _CUPY.match(name):
        arrays = sum(kind == "bool" or kind[-1:].isdigit() for kind in match[2].split("_"))
        return Work(max(arrays, 1), match[1] == "copy", 1)
    match = _TORCH.search(name)
    if not match:
        return None
    elements = 8 if match["vectors"] else int(match["elements"] or 4)
    return Work(_count_arrays(name), bool(_COPIES.search(name)), elements)


def _count_arrays(name: str) -> int:
    """The arrays that a kernel of PyTorch reads and writes."""
    if pointers := _POINTERS.search(name):
        return int(pointers[1])
    if _UNARY.search(name):
        return 2
    if _BINARY.search(name):
        return 3
    # The last one is of the index: gpu_kernel_impl(...)::[lambda(int)].
    functions = _LAMBDA.findall(name)[:-1]
    return 2 + functions[-1].count(",") if functions else 2


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

    def mark_later(self) -> Flags:
        """A mask of the members that are not the first of their chain."""
        return np.asarray(np.r_[False, np.diff(self.chain) == 0][: len(self.chain)], np.bool_)

    def measure_left(self, share: float) -> NDArray[np.float64]:
        """The part of each member's time that a fused kernel takes.

        It reads and writes LEAST_ARRAYS at the least. At the most (`share` 1) each operand that no
        member has to have written is an array of its own.
        """
        arrays, members = np.bincount(self.chain, self.arrays), np.bincount(self.chain)
        most = arrays - 2 * members + LEAST_ARRAYS
        fused = LEAST_ARRAYS + share * (most - LEAST_ARRAYS)
        return np.asarray(np.minimum(fused / arrays, 1.0)[self.chain], np.float64)


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
    count = elements * threads
    ends = count == 0
    order = np.lexsort((start, lane))
    order = order[ends[order] | (length[order] >= LEAST_NS)]
    parts = [
        rows[first:behind]
        for rows in _split_rows(order, lane, count)
        for first, behind in _split_passes(tuple(name[rows].tolist()))
    ]
    is_copy = np.array([bool(work and work.is_copy) for work in works])
    chains = [rows for rows in parts if _is_chain(~is_copy[name[rows]])]
    lengths = [len(rows) for rows in chains]
    rows = np.concatenate((np.empty(0, np.int64), *chains))
    chain = np.repeat(np.arange(len(chains)), lengths)
    arrays = np.array([work.arrays if work else 0 for work in works], np.int64)[name[rows]]
    return Chains(rows, chain, length[rows].astype(np.int64), arrays)


def _split_rows(order: IntArray, lane: Codes, count: IntArray) -> Iterator[IntArray]:
    """The kernels that follow each other in a lane with about as many elements."""
    sizes = count[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = sizes[1:] / sizes[:-1]
    follows = (ratio <= MOST_RATIO) & (ratio >= 1 / MOST_RATIO)
    follows &= lane[order[1:]] == lane[order[:-1]]
    for rows in np.split(order, 1 + np.flatnonzero(~follows)):
        if len(rows) >= LEAST_MEMBERS:
            yield rows


def _is_chain(computes: Flags) -> bool:
    return len(computes) >= LEAST_MEMBERS and int(np.sum(computes)) >= LEAST_MADE


@functools.lru_cache(maxsize=1024)  # the layers of a model and the steps of a run are alike
def _split_passes(kernels: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The first and the behind of each pass of loops among kernels, and of what stands between.

    Passes of less than LEAST_MEMBERS kernels are left out.
    """
    for period in range(1, len(kernels) // 2 + 1):
        first, behind = _find_loop(kernels, period)
        if behind > first:
            passes = range(first, behind, period) if period >= LEAST_MEMBERS else ()
            later = _split_passes(kernels[behind:])
            return (
                *_split_passes(kernels[:first]),
                *((begin, min(begin + period, behind)) for begin in passes),
                *((behind + begin, behind + end) for begin, end in later),
            )
    return ((0, len(kernels)),)


def _find_loop(kernels: tuple[int, ...], period: int) -> tuple[int, int]:
    """The first and the behind of the first loop whose passes are so many kernels; 0, 0 for none.

    A formula may have the same kernel twice in a row: a short pass has to come LEAST_PASSES times.
    """
    least = 2 * period if period >= LEAST_MEMBERS else max(LEAST_PASSES * period, LEAST_LOOP)
    first = 0
    for place in range(period, len(kernels) + 1):
        if place < len(kernels) and kernels[place] == kernels[place - period]:
            continue
        if place - first >= least:
            return first, place
        first = place - period + 1
    return 0, 0
