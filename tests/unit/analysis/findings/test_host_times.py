"""The host's silence between launches and blocking calls, against the gaps of all calls at once."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from gpu_profile.analysis.activity.activity import Activity, Calls
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.findings.facts.host_times import _find_silence


@pytest.mark.parametrize("seed", range(40))
def test_silence_is_what_no_call_covers(seed: int) -> None:
    """Calls that overlap, of no length, and blocking calls before the first launch."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(-50, 400, seed % 30))
    end = start + random.integers(0, 15, len(start))
    launches = random.random(len(start)) < 0.7
    blocked = random.integers(-80, 450, seed % 7)
    until = blocked + random.integers(0, 40, len(blocked))
    least = seed % 19 + 1
    calls = SimpleNamespace(
        calls=Calls(start, end - start, start, start, start), launches_op=launches
    )

    blocking = Intervals.union(blocked, until)
    silence = _find_silence(cast("Activity", calls), blocking, least)

    gaps = Intervals.union(np.r_[start[launches], blocked], np.r_[end[launches], until]).gaps()
    long = gaps.end - gaps.start >= least
    assert silence.start.tolist() == gaps.start[long].tolist()
    assert silence.end.tolist() == gaps.end[long].tolist()
