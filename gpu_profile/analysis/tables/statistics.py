"""Exact statistics of durations and sizes, which can be merged over reports.

A partial result holds every distinct value with its count. Exact medians and quantiles of many
reports need no more, and it is far smaller than the events.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.table import Cell

Key: TypeAlias = tuple[Cell, ...]


@dataclass(frozen=True, eq=False)
class Samples:
    """Values by key: `keys[code[i]]` had `value[i]` `count[i]` times. Sorted by code, value."""

    keys: tuple[Key, ...]
    code: IntArray
    value: IntArray
    count: IntArray


@dataclass(frozen=True)
class Summary:
    """The statistics of one key. `stdev` is of a sample (n - 1), 0 for a single value."""

    key: Key
    count: int
    total: int
    median: float
    minimum: int
    maximum: int
    stdev: float

    @property
    def mean(self) -> float:
        return self.total / self.count


def encode_rows(*columns: IntArray) -> tuple[IntArray, list[tuple[int, ...]]]:
    """(codes, combinations): a code for each row, and the distinct rows by code, ascending."""
    codes, column_values = encode_column(columns[0])
    combinations: list[tuple[int, ...]] = [(int(value),) for value in column_values]
    for column in columns[1:]:
        inner, values = encode_column(column)
        codes, column_values = encode_column(codes * len(values) + inner)
        pairs = (divmod(int(both), len(values)) for both in column_values)
        combinations = [(*combinations[first], int(values[second])) for first, second in pairs]
    return codes, combinations


def count_values(keys: Sequence[Key], code: IntArray, value: IntArray) -> Samples:
    """Count the values of each code; codes with equal keys are merged."""
    place: dict[Key, int] = {}
    merged = np.array([place.setdefault(key, len(place)) for key in keys], np.int64)
    if len(place) < len(keys):
        code = merged[code]
    samples = _count_packed(tuple(place), code, value)
    if samples is not None:
        return samples
    order = np.lexsort((value, code))
    return _merge_equal(tuple(place), code[order], value[order], np.ones(len(code), np.int64))


def _count_packed(keys: tuple[Key, ...], code: IntArray, value: IntArray) -> Samples | None:
    """Count (code, value) pairs packed into one integer; None if they do not fit.

    Sorting one array is much faster than np.lexsort and needs less memory.
    """
    if not len(value):
        return Samples(keys, code, value, value)
    packed = _one_number(code, value)
    if packed is None:
        return None
    packed.sort()
    first = np.ones(len(packed), bool)
    np.not_equal(packed[1:], packed[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    values = packed[starts]
    counts = np.diff(starts, append=len(packed))
    bits = int(value.max()).bit_length()
    return Samples(keys, values >> bits, values & ((1 << bits) - 1), counts)


def _one_number(code: IntArray, value: IntArray) -> IntArray | None:
    """Code and value packed into one integer that sorts like the pair; None if over 62 bits."""
    if not len(value) or int(value.min()) < 0:
        return None
    bits = int(value.max()).bit_length()
    if int(code.max()).bit_length() + bits > 62:
        return None
    packed = code << bits
    packed |= value
    return packed


def _merge_equal(
    keys: tuple[Key, ...], code: IntArray, value: IntArray, count: IntArray
) -> Samples:
    """Add up the counts of sorted rows with equal code and value."""
    first = np.ones(len(code), bool)
    first[1:] = (code[1:] != code[:-1]) | (value[1:] != value[:-1])
    starts = np.flatnonzero(first)
    counts = np.add.reduceat(count, starts) if len(starts) else count
    return Samples(keys, code[starts], value[starts], counts)


def pool_samples(parts: Iterable[Samples]) -> Samples:
    """All parts as one; the result does not depend on their order or division."""
    samples = list(parts)
    keys = tuple(sorted({key for part in samples for key in part.keys}, key=make_sortable))
    place = {key: index for index, key in enumerate(keys)}
    if not samples:
        return Samples((), *(np.empty(0, np.int64) for _ in range(3)))
    codes = (np.array([place[key] for key in part.keys], np.int64)[part.code] for part in samples)
    code = np.concatenate(list(codes))
    value = np.concatenate([part.value for part in samples])
    count = np.concatenate([part.count for part in samples])
    packed = _one_number(code, value)
    order = np.lexsort((value, code)) if packed is None else np.argsort(packed)
    return _merge_equal(keys, code[order], value[order], count[order])


def make_sortable(key: Key) -> tuple[tuple[bool, Cell], ...]:
    """A sort key for keys whose cells may be None; None comes first."""
    return tuple((cell is not None, "" if cell is None else cell) for cell in key)


def summarise_samples(samples: Samples) -> list[Summary]:
    """The summary of each key that has values, in the order of the keys."""
    starts = np.flatnonzero(np.diff(samples.code, prepend=-1))
    if not len(starts):
        return []
    counts = np.add.reduceat(samples.count, starts)
    totals = np.add.reduceat(samples.count * samples.value, starts)
    lengths = np.diff(starts, append=len(samples.code))
    off_mean = samples.value - np.repeat(totals / counts, lengths)
    squares = np.add.reduceat(samples.count * off_mean**2, starts)
    stdevs = np.sqrt(squares / np.maximum(counts - 1, 1))
    medians = compute_quantiles(samples, 0.5)
    maxima = samples.value[starts + lengths - 1]
    numbers = (counts, totals, medians, samples.value[starts], maxima, stdevs)
    codes = samples.code[starts].tolist()
    rows: Iterator[tuple[int, int, float, int, int, float]] = zip(
        *(array.tolist() for array in numbers), strict=True
    )
    return [Summary(samples.keys[code], *row) for code, row in zip(codes, rows, strict=True)]


def compute_quantiles(samples: Samples, share: float) -> NDArray[np.float64]:
    """The quantile of each key, interpolated linearly (0.5: the mean of the middle two values)."""
    starts = np.flatnonzero(np.diff(samples.code, prepend=-1))
    if not len(starts):
        return np.empty(0)
    stop = np.cumsum(samples.count)
    counts = np.add.reduceat(samples.count, starts)
    place = share * (counts - 1)
    low = np.floor(place).astype(np.int64)
    base = stop[starts] - samples.count[starts]
    high = np.minimum(low + 1, counts - 1)
    lower = samples.value[np.searchsorted(stop, base + low, side="right")]
    upper = samples.value[np.searchsorted(stop, base + high, side="right")]
    result: NDArray[np.float64] = lower + (place - low) * (upper - lower)
    return result
