"""Predicted gains of planted causes against the twin of the run that has the fix.

`python -m tests.generator --gains --runs 500` judges as many as you like.
"""

import pytest

from tests.generator.gains import Gain, judge_gains
from tests.generator.streams import judge_streams
from tests.seeds import list_seeds
from tests.unit.analysis.findings.test_generated_runs import NAMED_SHARE, probability_of

MENDED = (71111, 71084)
"""Experts of one rank that get more tokens; a rank that launches more kernels."""
STREAMS = (6, 9, 31, 44)


def assert_mostly_right(gains: list[Gain]) -> None:
    """As docs/accuracy.md calls right, and no abstention."""
    wrong = [str(gain) for gain in gains if not gain.is_right or gain.why_not]
    assert probability_of(len(wrong), len(gains), 1 - NAMED_SHARE) > 1e-4, wrong


@pytest.mark.further
def test_a_late_rank_is_slower_by_the_copies_that_others_do_not_make() -> None:
    """Both ranks copy from pageable memory, one of them copies from pinned memory, too."""
    assert [str(gain) for gain in judge_gains(71086) if not gain.is_right] == []


@pytest.mark.drawn
def test_a_gain_is_that_of_the_fix() -> None:
    gains = [gain for seed in list_seeds(MENDED, nightly=300) for gain in judge_gains(seed)]
    assert_mostly_right(gains)


@pytest.mark.further
@pytest.mark.drawn
def test_a_gain_is_that_of_the_fix_where_several_streams_compute() -> None:
    """Kernels of two streams run as alone, wait for each other, or slow each other."""
    judged = [judge_streams(seed) for seed in list_seeds(STREAMS, nightly=200)]
    planted = [gain for _, gain, _ in judged if gain.plant.name != "nothing"]
    assert_mostly_right(planted)
    # a loss that is read in each step blocks the host: that is a true finding
    healthy = [
        gain
        for program, gain, _ in judged
        if gain.plant.name == "nothing" and not program.reads_loss
    ]
    assert [str(gain) for gain in healthy if gain.findings] == []
