import os
import signal
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report import parallel
from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import GpuProfileError
from gpu_profile.table import Table

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
TWO = [ReportSource(str(DATA / f"rank{rank}.sqlite.gz")) for rank in range(2)]


def _no_table(_parts: object) -> Table:
    return Table("", (), ())


def identify(database: Database, _scope: Scope) -> tuple[int, int]:
    return os.getpid(), id(database)


def die_in_a_worker(_database: Database, scope: Scope) -> int:
    if os.getpid() == int(scope.by):
        return 0
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


IDENTITY = Analysis("identity", identify, _no_table)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    monkeypatch.setattr(parallel, "count_cores", lambda: 2)
    monkeypatch.setattr(parallel, "SMALL_BYTES", 0)
    return Readers((Analysis("loads", identify, _no_table),))


def test_each_worker_keeps_its_report_open_for_the_second_reading(readers: Readers) -> None:
    first = readers.read_first(TWO, [IDENTITY], print)
    assert readers.has_workers
    assert readers.read_again(TWO, [IDENTITY], print) == first
    (pid, _), (other, _) = (answer[0] for answer in first if isinstance(answer, list))
    assert len({pid, other, os.getpid()}) == 3


def test_a_report_that_cannot_be_read_is_an_error_in_its_place(
    readers: Readers, tmp_path: Path
) -> None:
    bad = tmp_path / "rank9.sqlite"
    bad.write_bytes(b"half" * 1_000_000)
    answers = readers.read_first([TWO[0], ReportSource(str(bad))], [IDENTITY], print)
    assert isinstance(answers[1], GpuProfileError)
    assert isinstance(readers.read_again(TWO[:1], [IDENTITY], print)[0], list)


def test_the_report_of_a_dead_worker_is_read_anew(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers.read_first(TWO, [IDENTITY], print)
    monkeypatch.setattr(parallel, "count_cores", lambda: 1)
    sources = [ReportSource(source.place, Scope(by=str(os.getpid()))) for source in TWO]
    death = Analysis("death", die_in_a_worker, _no_table)
    assert readers.read_again(sources, [death], print) == [[0], [0]]
