"""The launches of one rank in the order of the host: the input of the search for steps."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray

NGRAMS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, eq=False)
class Launches:
    """Launches in order, in arrays of one length; times in ns.

    `token`: a number for each full name. `kind`: a coarser number, for names without digits and
    template arguments. `call_starts`, `call_ends`: start and end of the host's call. `pause`: how
    long the host worked between the call before and this one, without blocking calls. `gpu`: time
    on the GPU, 0 for communication, because it waits. The flags `to_device`, `to_host`, `values` (a
    small copy to the host), `graph`, `communication`, `optimizer`, `multiplies` (matrices) and
    `tests` (of XLA's autotuner) tell what the operation is.
    """

    token: IntArray
    kind: IntArray
    call_starts: IntArray
    call_ends: IntArray
    pause: IntArray
    gpu: IntArray
    graph: Flags
    communication: Flags
    to_device: Flags
    to_host: Flags
    values: Flags
    optimizer: Flags
    multiplies: Flags
    tests: Flags

    def __len__(self) -> int:
        return len(self.token)

    def pick(self, rows: IntArray | slice) -> "Launches":
        """These launches only."""
        return Launches(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @cached_property
    def ngrams(self) -> Mapping[int, NDArray[np.uint64]]:
        """For each length in NGRAMS a hash of the launches that begin at each row (see
        ngram_codes).
        """
        return ngram_codes(self.token)

    @cached_property
    def content(self) -> "Content":
        return Content(self.kind, ~self._continues_copies)

    @property
    def _continues_copies(self) -> Flags:
        """A mask of the copies to the host that directly follow another one.

        A checkpoint of 10 or 1000 tensors is one event: a small step with a checkpoint is alike to
        a step without one.
        """
        return np.asarray(self.to_host & np.r_[False, self.to_host[:-1]], bool)


def ngram_codes(token: IntArray) -> Mapping[int, NDArray[np.uint64]]:
    """For each length in NGRAMS a hash of the launches that begin at each row.

    Equal hashes mean equal stretches: with 64 bits, two of a million different stretches collide
    in about one of 10^7 programs.
    """
    # The constants of splitmix64 (https://prng.di.unimi.it/splitmix64.c), whose products are
    # meant to wrap at 2^64.
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
    """The content of stretches of launches as short vectors, independent of the order of launches.

    Stretches with similar counts of kinds have vectors near each other. Launches that are not
    `counted` add nothing.
    """

    SIZE = 12

    def __init__(self, kind: IntArray, counted: Flags) -> None:
        # A fixed seed: the same report gives the same steps.
        random = np.random.default_rng(7)
        # Random signs (a random projection) keep the distances between counts of kinds to some 20
        # %.
        signs = random.choice(
            np.array((-1, 1), np.int32), (self.SIZE, int(kind.max(initial=0)) + 1)
        )
        self._counted: IntArray = np.r_[0, np.cumsum(counted)]
        self._sums = np.zeros((self.SIZE, len(kind) + 1), np.int32)
        # 20 times as fast as a cumsum over the matrix
        for sums, sign in zip(self._sums, signs, strict=True):
            np.cumsum(sign[kind] * counted, out=sums[1:])

    def measure(self, edges: IntArray) -> IntArray:
        """How many launches are counted between consecutive edges."""
        return np.asarray(np.diff(self._counted[edges]), np.int64)

    def between(self, edges: IntArray) -> NDArray[np.float64]:
        """One row for each stretch between consecutive edges."""
        return np.diff(self._sums[:, edges].astype(np.float64), axis=1).T


def distances(rows: NDArray[np.float64], typical: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of each row from `typical`, divided by the length of `typical`."""
    size = max(float(np.linalg.norm(typical)), 1.0)
    return np.asarray(np.linalg.norm(rows - typical, axis=1) / size)
