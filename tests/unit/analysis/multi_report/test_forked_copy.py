import os
import signal
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnose import FINDINGS
from gpu_profile.analysis.multi_report.forked_copy import CAN_FORK, ForkedCopy
from gpu_profile.analysis.multi_report.work import Partials, ReportSource, Work
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.replay.changes import Change, combine

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="only where a copy can be forked")


def test_the_value_comes_from_another_process() -> None:
    assert ForkedCopy(os.getpid).result() != os.getpid()


def test_what_a_killed_copy_was_to_compute_is_computed_here() -> None:
    us = os.getpid()

    def die_elsewhere() -> int:
        if os.getpid() != us:
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    assert ForkedCopy(die_elsewhere).result() == us


def test_an_error_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        ForkedCopy(lambda: 1 // 0).result()


def test_findings_of_a_copy_are_those_of_one_process(short_run: Path) -> None:
    report = ReportSource(str(short_run / "rank0.sqlite"))
    work = Work(report, (STEP_SUM, FINDINGS, STEP_SUM))
    alone, forked = work.do(), work.do(forks=True)
    assert isinstance(alone, Partials)
    assert isinstance(forked, Partials)
    for index, analysis in enumerate(work.analyses):
        assert analysis.merge([forked[index]]) == analysis.merge([alone[index]])
    assert forked.notes == alone.notes


def test_a_change_comes_from_a_copy_as_what_it_tells() -> None:
    """A diagnosis holds changes, and their functions are closures."""
    change = Change("host pauses", combine([]), ("host_stall",), rank=1)
    told = ForkedCopy(lambda: change).result()
    assert told is not change
    assert (told.text, told.kinds, told.rank) == ("host pauses", ("host_stall",), 1)
