import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_profile.analysis.findings.diagnose import FINDINGS
from gpu_profile.analysis.multi_report.forked_copy import CAN_FORK, ForkedCopy, map_in_copies
from gpu_profile.analysis.multi_report.work import Partials, ReportSource, Work
from gpu_profile.analysis.our_tables.step_sum import STEP_SUM
from gpu_profile.analysis.replay.changes import Change, combine
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope

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


def test_items_are_mapped_in_their_order_by_several_processes() -> None:
    """Each of three items waits until all three are begun, so one process alone would not end."""
    begun, tell = os.pipe()
    others, go = os.pipe()

    def meet(item: int) -> tuple[int, int]:
        os.write(tell, b".")
        if item == 0:
            for _ in range(3):
                os.read(begun, 1)
            os.write(go, b"...")
        os.read(others, 1)
        return item, os.getpid()

    met = map_in_copies(meet, [0, 1, 2], 3)
    assert [item for item, _ in met] == [0, 1, 2]
    assert len({process for _, process in met}) == 3


def test_one_process_maps_alone() -> None:
    assert set(map_in_copies(lambda _: os.getpid(), [0, 1, 2], 1)) == {os.getpid()}


def test_items_of_a_killed_copy_are_computed_here() -> None:
    us = os.getpid()

    def die_elsewhere(item: int) -> int:
        if os.getpid() != us:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    assert map_in_copies(die_elsewhere, list(range(20)), 4) == list(range(20))


def test_an_error_of_an_item_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        map_in_copies(lambda item: 1 // item, [2, 1, 0], 3)


def test_findings_of_a_copy_are_those_of_one_process(short_run: Path) -> None:
    report = ReportSource(str(short_run / "rank0.sqlite"))
    work = Work(report, (STEP_SUM, FINDINGS, STEP_SUM))
    alone, forked = work.do(), work.do(forks=True)
    assert isinstance(alone, Partials)
    assert isinstance(forked, Partials)
    for index, analysis in enumerate(work.analyses):
        assert analysis.merge([forked[index]]) == analysis.merge([alone[index]])
    assert forked.notes == alone.notes


def _identify(_database: Database, _scope: Scope) -> int:
    return os.getpid()


def test_a_copy_begins_an_early_part_of_the_next_work(short_run: Path) -> None:
    report = ReportSource(str(short_run / "rank0.sqlite"))
    late = Analysis("late", _identify, STEP_SUM.merge)
    early = replace(late, name="early", begins_early=True)
    for forks in (True, False):
        assert Work(report, (late,), early_analyses=(early,)).do(forks, keeps=True) == [os.getpid()]
        answer = Work(report, (late, early, late)).do(forks)
        assert isinstance(answer, Partials)
        assert answer[0] == answer[2] == os.getpid()
        assert (answer[1] != os.getpid()) is forks


def test_a_change_comes_from_a_copy_as_what_it_tells() -> None:
    """A diagnosis holds changes, and their functions are closures."""
    change = Change("host pauses", combine([]), ("host_stall",), rank=1)
    told = ForkedCopy(lambda: change).result()
    assert told is not change
    assert (told.text, told.kinds, told.rank) == ("host pauses", ("host_stall",), 1)
