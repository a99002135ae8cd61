"""Stretches of launches that come once in each repetition, and how well they part the launches.

A launch, or a few launches in a row, that occurs once a step parts the launches into stretches of
the same content. One that occurs in each layer parts them too, but not into like stretches: the
optimizer, the loss and the data come between some of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.step_search.launches import (
    NGRAMS,
    Content,
    Flags,
    Launches,
    distances,
)

FEWEST = 3
# Alike: counts of launches that differ by a quarter at most (logging, routing of tokens).
ALIKE = 0.25
# The stretches that are alike hold at least this part of the launches, and of the stretches.
LEAST_COVER, LEAST_ALIKE = 0.4, 0.6
# Enough to see three steps of 40,000 launches; more only costs time.
SAMPLE = 120_000
# Of the features that occur equally often only the most regular ones are tried.
TRIES_A_COUNT, TRIES = 3, 600


@dataclass(frozen=True, eq=False)
class Anchor:
    """A feature (`length` launches whose hash is `code`), where it occurs in the sample, and what
    it parts: `typical` content, which of the stretches are `alike`, their part of the launches."""

    length: int
    code: np.uint64
    place: IntArray
    typical: NDArray[np.float64]
    alike: Flags
    cover: float
    tolerance: float = ALIKE

    @property
    def count(self) -> int:
        return len(self.place)


def sample_start(launches: Launches) -> int:
    """Where the sample begins: the later part, behind most of a start-up."""
    return max(int(0.4 * len(launches)), len(launches) - SAMPLE)


def find_anchors(launches: Launches) -> list[Anchor]:
    """Features that part the sample into like stretches, the most frequent first."""
    begin = sample_start(launches)
    content, codes = launches.content, launches.ngrams
    anchors = []
    for length, code, place in _features(codes, begin):
        if np.median(np.diff(place)) < 2 and not launches.graph[place].all():
            continue  # one kernel over and over: a benchmark, an initialisation, no step
        anchor = judge_anchor(content, length, code, place, len(launches) - begin)
        if anchor is not None:
            anchors.append(anchor)
    return sorted(anchors, key=lambda anchor: (-anchor.count, -anchor.cover))


def judge_anchor(
    content: Content, length: int, code: np.uint64, place: IntArray, sample: int
) -> Anchor | None:
    """The anchor, if enough of what it parts is alike."""
    rows = content.between(place)
    typical = np.median(rows, axis=0)
    alike = distances(rows, typical) <= ALIKE
    cover = float(np.diff(place)[alike].sum()) / sample
    if alike.mean() < LEAST_ALIKE or cover < LEAST_COVER:
        return None
    return Anchor(length, code, place, typical, alike, cover)


def _features(
    codes: Mapping[int, NDArray[np.uint64]], begin: int
) -> Iterator[tuple[int, np.uint64, IntArray]]:
    """(length, hash, places) of the features worth a try: the most regular of each count."""
    for length in NGRAMS:
        code = codes[length][begin:]
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.r_[True, code[order][1:] != code[order][:-1]])
        count = np.diff(np.r_[first, len(order)])
        rows = np.flatnonzero(count >= FEWEST)
        rows = rows[np.lexsort((_spreads(order, first, count)[rows], count[rows]))]
        rows = rows[_rank_among_equals(count[rows]) < TRIES_A_COUNT]
        for row in rows[:TRIES]:
            place = order[first[row] : first[row] + count[row]] + begin
            yield length, code[order[first[row]]], place


def _rank_among_equals(value: IntArray) -> IntArray:
    """0, 1, 2, ... within each run of equal values."""
    opens = np.r_[True, value[1:] != value[:-1]]
    place = np.arange(len(value))
    return np.asarray(place - np.maximum.accumulate(np.where(opens, place, 0)))


def _spreads(order: IntArray, first: IntArray, count: IntArray) -> NDArray[np.float64]:
    """How unevenly each feature's occurrences lie: the steps' deviation against their mean."""
    gap = np.diff(order, prepend=order[:1]).astype(np.float64)
    gap[first] = 0.0
    inner = np.maximum(count - 1, 1)
    mean = np.add.reduceat(gap, first) / inner
    square = np.add.reduceat(gap * gap, first) / inner
    return np.asarray(np.sqrt(np.maximum(square - mean * mean, 0)) / np.maximum(mean, 1))
