"""Anchors: launches that occur once in each repetition and divide the launches into like
stretches.

A launch, or a few in a row, that occurs once in each step divides the launches into stretches with
the same content. A launch that occurs in each layer gives unlike stretches, because the optimizer,
the loss and the data are in some of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.step_search.launches import (
    NGRAMS,
    Content,
    Launches,
    distances,
)

FEWEST = 3
# Stretches are alike if the counts of their launches differ by a quarter at most (logging and the
# routing of tokens vary).
ALIKE = 0.25
# Alike stretches must hold 40 % of the launches and be 60 % of the stretches.
LEAST_COVER, LEAST_ALIKE = 0.4, 0.6
# What comes every n-th time does so with a spread of 20 %.
EVEN = 0.2
# Enough for three steps of 40,000 launches; more costs time only.
SAMPLE = 120_000
# Of features with the same number of occurrences only the 3 most regular ones are tried.
TRIES_A_COUNT, TRIES = 3, 600


@dataclass(frozen=True, eq=False)
class Anchor:
    """A feature (`length` launches whose hash is `code`) and the stretches between its
    occurrences.

    `place`: where it occurs in the sample. `typical`: the median content of the stretches.
    `is_alike`: a mask of the stretches near it. `cover`: the part of the launches in those.
    """

    length: int
    code: np.uint64
    place: IntArray
    typical: NDArray[np.float64]
    is_alike: Flags
    cover: float
    tolerance: float = ALIKE

    @property
    def count(self) -> int:
        return len(self.place)


def sample_start(launches: Launches) -> int:
    """Where the sample begins: after at least 40 % of the launches, which leaves out most of a
    start-up.
    """
    return max(int(0.4 * len(launches)), len(launches) - SAMPLE)


def find_anchors(launches: Launches, begin: int) -> list[Anchor]:
    """The anchors of the sample, which begins at row `begin`, the most frequent first."""
    content, codes = launches.content, launches.ngrams
    sample, anchors = int(content.measure(np.array([begin, len(launches)]))[0]), []
    for length, code, place in _features(codes, begin):
        if np.median(np.diff(place)) < 2 and not launches.graph[place].all():
            continue  # one kernel repeated: a benchmark or an initialisation, not a step
        anchor = judge_anchor(content, length, code, place, sample)
        if anchor is not None:
            anchors.append(anchor)
    return sorted(anchors, key=lambda anchor: (-anchor.count, -anchor.cover))


def judge_anchor(
    content: Content, length: int, code: np.uint64, place: IntArray, sample: int
) -> Anchor | None:
    """The anchor, or None if too few of its stretches are alike in a sample of so many launches."""
    rows = content.between(place)
    typical = np.median(rows, axis=0)
    alike = distances(rows, typical) <= ALIKE
    cover = float(content.measure(place)[alike].sum()) / sample
    if alike.mean() < LEAST_ALIKE or cover < LEAST_COVER:
        return None
    return Anchor(length, code, place, typical, alike, cover)


def _features(
    codes: Mapping[int, NDArray[np.uint64]], begin: int
) -> Iterator[tuple[int, np.uint64, IntArray]]:
    """Yield (length, hash, places) of the features to try: the most regular ones of each count."""
    for length in NGRAMS:
        code = codes[length][begin:]
        order = np.argsort(code, kind="stable")
        first = np.flatnonzero(np.r_[True, code[order][1:] != code[order][:-1]])
        count = np.diff(np.r_[first, len(order)])
        rows = np.flatnonzero(count >= FEWEST)
        # By count, then by spread: the last key of lexsort counts first.
        rows = rows[np.lexsort((_spreads(order, first, count)[rows], count[rows]))]
        rows = rows[_rank_among_equals(count[rows]) < TRIES_A_COUNT]
        for row in rows[:TRIES]:
            place = order[first[row] : first[row] + count[row]] + begin
            yield length, code[order[first[row]]], place


def _rank_among_equals(value: IntArray) -> IntArray:
    """0, 1, 2, … within each run of equal values: [5, 5, 7] gives [0, 1, 0]."""
    opens = np.r_[True, value[1:] != value[:-1]]
    place = np.arange(len(value))
    return np.asarray(place - np.maximum.accumulate(np.where(opens, place, 0)))


def _spreads(order: IntArray, first: IntArray, count: IntArray) -> NDArray[np.float64]:
    """The standard deviation of the distances between a feature's occurrences, divided by their
    mean.
    """
    gap = np.diff(order, prepend=order[:1]).astype(np.float64)
    # What is before a feature's first occurrence is of another feature.
    gap[first] = 0.0
    inner = np.maximum(count - 1, 1)
    mean = np.add.reduceat(gap, first) / inner
    square = np.add.reduceat(gap * gap, first) / inner
    return np.asarray(np.sqrt(np.maximum(square - mean * mean, 0)) / np.maximum(mean, 1))


def comes_regularly(place: IntArray) -> bool:
    """Whether these stretches come every n-th time."""
    apart = np.diff(place)
    return len(apart) >= FEWEST - 1 and bool(np.std(apart) <= EVEN * np.mean(apart))


def comes_in_rounds(place: IntArray) -> bool:
    """As comes_regularly(), also where some rounds have no such stretch: of a loop in a loop the
    last pass may leave something out.
    """
    apart = np.diff(place)
    if len(apart) < FEWEST - 1:
        return False
    rounds = np.maximum(np.rint(apart / np.median(apart)), 1)
    return bool(np.std(apart / rounds) <= EVEN * np.mean(apart / rounds))


def find_rows(flags: Flags) -> IntArray:
    """The first place of each row of flags: what is outside of a loop can make two stretches, the
    one before it and the one after it.
    """
    places = np.flatnonzero(flags)
    return places[np.diff(places, prepend=-2) > 1]


def is_inner_loop(anchor: Anchor, gpu: IntArray) -> bool:
    """Whether every n-th stretch does more of the GPU's work than all others, which are then a loop
    inside of a step. `gpu`: the time of each launch.

    A program that reads one box, or one beam, after the other copies something in each of them, and
    its network computes once in 128.
    """
    others = ~anchor.is_alike
    if not comes_in_rounds(find_rows(others)):
        return False
    time = np.add.reduceat(gpu, anchor.place)[:-1]
    return 2 * int(time[others].sum()) > int(time.sum())
