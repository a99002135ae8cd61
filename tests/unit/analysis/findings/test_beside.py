"""How much of each kernel's time is beside communication, as counted piece by piece."""

import numpy as np
import pytest

from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.findings.facts.beside import ALONE, MOSTLY, PARTLY, _mark_part


@pytest.mark.parametrize("seed", range(12))
def test_marks_are_what_the_overlap_says(seed: int) -> None:
    random = np.random.default_rng(seed)
    edges = np.sort(random.choice(400, 2 * random.integers(0, 9), replace=False))
    communication = Intervals(edges[::2], edges[1::2])
    start = np.sort(random.integers(0, 400, 60))
    # Of one stream, where each ends before the next one, and of several.
    end = start + (random.integers(1, 60, 60) if seed % 2 else 1)
    beside = communication.within(start, end) / (end - start)
    counted = np.where(beside > 0.98, MOSTLY, np.where(beside > 0, PARTLY, ALONE))
    assert _mark_part(communication, start, end).tolist() == counted.tolist()


def test_no_kernels_have_no_marks() -> None:
    none = np.empty(0, np.int64)
    assert not len(_mark_part(Intervals(none, none), none, none))
