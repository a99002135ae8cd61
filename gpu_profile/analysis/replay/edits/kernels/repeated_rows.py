"""Rows of kernels of a forward pass that the backward pass of its step runs again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.modules.marks import BACKWARD, OPTIMIZER

LEAST_ROW, LEAST_NAMES = 8, 3
"""Kernels of a row, and different names among any LEAST_ROW of them."""
Codes = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, eq=False)
class PassLaunches:
    """GPU operations, sorted by step and in a step in the order of their launches, in arrays of one
    length.

    `size` is what tells those of one name apart: a number of the grid, or bytes. `places[place]` is
    where the program was at the launch.
    """

    step: Codes
    thread: Codes
    name: Codes
    size: Codes
    place: Codes
    places: Sequence[str]

    @cached_property
    def is_backward(self) -> Flags:
        """A mask of what a backward pass launches: in its phase, or on a thread of autograd, which
        may be in the range of a module.
        """
        in_phase = self._mark_places(BACKWARD)
        of_autograd = np.setdiff1d(self.thread[in_phase], self._main_threads)
        return in_phase | np.isin(self.thread, of_autograd)

    @cached_property
    def is_forward(self) -> Flags:
        """A mask of what the threads of the program launch but for the optimizer and the backward
        pass: the model, its loss.
        """
        is_main = np.isin(self.thread, self._main_threads)
        return is_main & ~self.is_backward & ~self._mark_places(OPTIMIZER)

    @property
    def _main_threads(self) -> Codes:
        """The threads that begin steps."""
        begins = np.flatnonzero(np.diff(self.step, prepend=-1))
        return np.unique(self.thread[begins])

    def _mark_places(self, phase: str) -> Flags:
        words = [text.split(" ")[0] == phase for text in self.places]
        return np.array([*words, False], np.bool_)[self.place]


def mark_repeated(launches: PassLaunches) -> Flags:
    """A mask of what stands in a row of LEAST_ROW that both passes of a step launch, with the same
    sizes: in the forward pass, and again in the backward pass.

    A checkpoint runs its part of the network so. What autograd launches by itself has other kernels
    than the forward pass, or other ones between.
    """
    is_repeated = np.zeros(len(launches.step), np.bool_)
    chosen = np.flatnonzero(launches.is_backward | launches.is_forward)
    if not launches.is_backward.any() or len(chosen) < LEAST_ROW:
        return is_repeated
    part = 2 * launches.step + launches.is_backward
    chosen = chosen[np.argsort(part[chosen], kind="stable")]
    part, name = part[chosen], launches.name[chosen]
    row = _number_rows(_number_pairs(name, launches.size[chosen]))
    is_whole = part[: len(row)] == part[LEAST_ROW - 1 :]
    is_whole &= _count_names(name) >= LEAST_NAMES
    row = _number_pairs(row, launches.step[chosen][: len(row)])
    is_backward = part[: len(row)] % 2 == 1
    first, again = (np.unique(row[is_whole & (is_backward == side)]) for side in (False, True))
    begins = is_whole & np.isin(row, np.intersect1d(first, again))
    is_repeated[chosen] = np.convolve(begins, np.ones(LEAST_ROW, np.int64)) > 0
    return is_repeated


def _number_rows(kind: IntArray) -> IntArray:
    """A number of the row of LEAST_ROW kinds that begins at each place, equal for equal rows."""
    length = 1
    while length < LEAST_ROW:
        shift = min(length, LEAST_ROW - length)
        kind, length = _number_pairs(kind[:-shift], kind[shift:]), length + shift
    return kind


def _number_pairs(first: Codes, second: Codes) -> IntArray:
    """A number of each pair from 0 on, equal for equal pairs."""
    codes = [np.unique(column, return_inverse=True)[1] for column in (first, second)]
    pairs = codes[0].astype(np.int64) * (1 + int(codes[1].max(initial=0))) + codes[1]
    return np.asarray(np.unique(pairs, return_inverse=True)[1], np.int64)


def _count_names(name: Codes) -> IntArray:
    """The number of different names in the row that begins at each place."""
    rows = np.sort(np.lib.stride_tricks.sliding_window_view(name, LEAST_ROW), axis=1)
    return np.asarray(1 + np.count_nonzero(np.diff(rows, axis=1), axis=1), np.int64)
