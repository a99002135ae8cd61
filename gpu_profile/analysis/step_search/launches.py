"""The launches of one rank in the order of the host, as the search for steps sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray

Flags = NDArray[np.bool_]
NGRAMS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class Launches:
    """Arrays of one length, in launch order; times in ns.

    `token`: a number for each full name, `kind`: a coarser one (names without digits and template
    arguments). `asked`, `returned`: when the host's call began and ended. `gpu`: how long the GPU
    worked, 0 for communication, which waits. `to_device`, `to_host`, `kernel`, `graph`,
    `optimizer`: what the operation is.
    """

    token: IntArray
    kind: IntArray
    asked: IntArray
    returned: IntArray
    gpu: IntArray
    kernel: Flags
    graph: Flags
    to_device: Flags
    to_host: Flags
    optimizer: Flags

    def __len__(self) -> int:
        return len(self.token)

    @cached_property
    def ngrams(self) -> Mapping[int, NDArray[np.uint64]]:
        """For each length in NGRAMS a hash of the launches from each place on."""
        return ngram_codes(self.token)

    @cached_property
    def content(self) -> "Content":
        return Content(self.kind)


def ngram_codes(token: IntArray) -> Mapping[int, NDArray[np.uint64]]:
    """For each length in NGRAMS a hash of the launches from each place on: equal hashes, equal
    stretches (64 bits: two of a million differing stretches collide once in 10^7 programs)."""
    with np.errstate(over="ignore"):
        code = (token.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
        codes_by_length = {1: code}
        for length in NGRAMS[1:]:
            half = length // 2
            later = np.r_[code[half:], np.zeros(min(half, len(code)), np.uint64)]
            code = code * np.uint64(0xBF58476D1CE4E5B9) + later
            code ^= code >> np.uint64(31)
            codes_by_length[length] = code
    return codes_by_length


class Content:
    """What stretches of launches hold, as short vectors: alike stretches have alike vectors,
    whatever the order of their launches."""

    SIZE = 12

    def __init__(self, kind: IntArray) -> None:
        random = np.random.default_rng(7)
        # Random signs keep the distances of the counts of kinds, up to some 20 %.
        signs = random.choice(
            np.array((-1, 1), np.int32), (self.SIZE, int(kind.max(initial=0)) + 1)
        )
        self._sums = np.zeros((self.SIZE, len(kind) + 1), np.int32)
        for sums, sign in zip(self._sums, signs, strict=True):  # row by row: 20 times as fast
            np.cumsum(sign[kind], out=sums[1:])

    def between(self, edges: IntArray) -> NDArray[np.float64]:
        """One row for each stretch from an edge to the next."""
        return np.diff(self._sums[:, edges].astype(np.float64), axis=1).T


def distances(rows: NDArray[np.float64], typical: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each row is from the typical one, relative to that one's size."""
    size = max(float(np.linalg.norm(typical)), 1.0)
    return np.asarray(np.linalg.norm(rows - typical, axis=1) / size)
