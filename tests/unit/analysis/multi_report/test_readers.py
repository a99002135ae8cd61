import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.work import Answer, ReportSource
from gpu_profile.analysis.multi_report.workers import count
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


def name_report(database: Database, _scope: Scope) -> str:
    return database.path.name


def wait_for_writer(_database: Database, scope: Scope) -> None:
    Path(scope.by).read_text()


def divide(_database: Database, _scope: Scope) -> float:
    return 1 / 0


IDENTITY = Analysis("identity", identify, _no_table)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    monkeypatch.setattr(count, "count_cores", lambda: 2)
    monkeypatch.setattr(count, "SMALL_BYTES", 0)
    return Readers((Analysis("loads", identify, _no_table),))


def test_each_worker_keeps_its_report_open_for_the_next_works(readers: Readers) -> None:
    first = readers.read_first(TWO, [IDENTITY], print)
    answers, used = readers.read_again(TWO, [IDENTITY], [IDENTITY], print, list)
    assert used == first
    assert answers == [[*answer, *answer] for answer in first if isinstance(answer, list)]
    (pid, _), (other, _) = (answer[0] for answer in first if isinstance(answer, list))
    assert len({pid, other, os.getpid()}) == 3


def test_the_first_answers_are_used_while_the_workers_go_on(
    readers: Readers, tmp_path: Path
) -> None:
    """Each worker waits in its other work until the first answers of all are used."""
    pipes = [tmp_path / "pipe0", tmp_path / "pipe1"]
    for pipe in pipes:
        os.mkfifo(pipe)
    pairs = zip(TWO, pipes, strict=True)
    sources = [ReportSource(source.place, Scope(by=str(pipe))) for source, pipe in pairs]
    waits = Analysis("waits", wait_for_writer, _no_table)

    def go_on(answers: Sequence[Answer]) -> list[str]:
        for pipe in pipes:
            pipe.write_text("used")
        return [answer[0] for answer in answers if isinstance(answer, list)]

    readers.read_first(TWO, [IDENTITY], print)
    named = Analysis("name", name_report, _no_table)
    answers, used = readers.read_again(sources, [named], [waits, named], print, go_on)
    assert used == [Path(source.place).name for source in TWO]
    assert [answer[2] for answer in answers if isinstance(answer, list)] == used


def test_a_report_that_cannot_be_read_is_an_error_in_its_place(
    readers: Readers, tmp_path: Path
) -> None:
    bad = tmp_path / "rank9.sqlite"
    bad.write_bytes(b"half" * 1_000_000)
    answers = readers.read_first([TWO[0], ReportSource(str(bad))], [IDENTITY], print)
    assert isinstance(answers[1], GpuProfileError)
    (answer,), _ = readers.read_again(TWO[:1], [IDENTITY], [IDENTITY], print, list)
    assert isinstance(answer, list)


def test_an_error_in_one_of_two_works_is_that_of_the_report(readers: Readers) -> None:
    readers.read_first(TWO, [IDENTITY], print)
    bad = Analysis("bad", divide, _no_table)
    (error, other), used = readers.read_again(TWO, [IDENTITY], [bad], print, list)
    assert used is not None
    assert all(isinstance(answer, list) for answer in used)
    assert isinstance(error, GpuProfileError)
    assert isinstance(other, GpuProfileError)


@pytest.mark.parametrize("place", [0, 1])
def test_the_report_of_a_dead_worker_is_read_anew(
    readers: Readers, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """Whichever work it dies of."""
    readers.read_first(TWO, [IDENTITY], print)
    monkeypatch.setattr(count, "count_cores", lambda: 1)
    sources = [ReportSource(source.place, Scope(by=str(os.getpid()))) for source in TWO]
    works = [[Analysis("name", name_report, _no_table)] for _ in range(2)]
    works[place] = [Analysis("death", die_in_a_worker, _no_table)]
    answers, used = readers.read_again(sources, works[0], works[1], print, list)
    names = [Path(source.place).name for source in TWO]
    assert answers == [[0, name] if place == 0 else [name, 0] for name in names]
    assert used == [answer[:1] for answer in answers if isinstance(answer, list)]


def test_a_worker_that_dies_in_its_turn_leaves_it_to_the_others(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two workers one analyses at a time, and each dies then."""
    monkeypatch.setattr(count, "MEMORY_BYTES", 48_000_000)
    monkeypatch.setattr(count, "MEMORY_OF_REPORT", 0)
    readers = Readers(spares_memory=True)
    readers.read_first(TWO, [IDENTITY], print)
    assert readers.has_workers
    monkeypatch.setattr(count, "count_cores", lambda: 1)
    sources = [ReportSource(source.place, Scope(by=str(os.getpid()))) for source in TWO]
    death = Analysis("death", die_in_a_worker, _no_table)
    named = Analysis("name", name_report, _no_table)
    answers, _ = readers.read_again(sources, [named], [death], print, list)
    assert answers == [[Path(source.place).name, 0] for source in TWO]


def test_without_workers_nothing_is_used_ahead(readers: Readers) -> None:
    named = Analysis("name", name_report, _no_table)
    readers.read_first(TWO[:1], [IDENTITY], print)
    assert not readers.has_workers
    answers, used = readers.read_again(TWO[:1], [named], [named], print, list)
    assert used is None
    assert answers == [[Path(TWO[0].place).name] * 2]
