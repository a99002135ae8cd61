"""One process, a pool, and a pool whose workers die: the same tables, the same refusals."""

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing import parent_process
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_profile.analysis.multi_report.parallel import (
    Analysed,
    collect_partials,
    do_work,
    make_pool,
    make_turns,
)
from gpu_profile.analysis.multi_report.work import ReportSource, Work
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.errors import ReportError, ToolError
from gpu_profile.table import Column, Table
from tests.reading import analyse_reports

DATA = Path(__file__).parents[3] / "data" / "h200x4-ddp"
FOUR = [ReportSource(str(DATA / f"rank{rank}.sqlite.gz")) for rank in range(4)]


def count(database: Database, _scope: Scope) -> tuple[str, int]:
    return database.path.name, database.count(KERNEL)


def count_or_die_once(database: Database, scope: Scope) -> tuple[str, int]:
    """Kills its worker the first time that rank 2 is read: the scope says where to note it."""
    note = Path(scope.by)
    if "rank2" in database.path.name and parent_process() and not note.exists():
        note.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return count(database, scope)


def read_huge_pages(_database: Database, _scope: Scope) -> list[str]:
    """The line of /proc that says if this process may use huge pages; none before Linux 5."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return [line for line in lines if line.startswith("THP_enabled")]


def has_frozen(_database: Database, _scope: Scope) -> bool:
    return gc.get_freeze_count() > 10_000


def count_or_die(database: Database, scope: Scope) -> tuple[str, int]:
    if "rank2" in database.path.name:
        os.kill(os.getpid(), signal.SIGKILL)
    return count(database, scope)


def listed(partials: Sequence[tuple[str, int]]) -> Table:
    return Table("count", (Column("Report"), Column("Kernels")), tuple(partials))


COUNT = Analysis("count", count, listed)


def _rows(analysed: Analysed) -> list[object]:
    return list(analysed.tables["count"].column("Report"))


def test_a_pool_gives_what_one_process_gives() -> None:
    alone = analyse_reports(FOUR, [COUNT], workers=1)
    assert analyse_reports(FOUR, [COUNT], workers=2) == alone
    assert _rows(alone) == [f"rank{rank}.sqlite.gz" for rank in range(4)]


def wait_for_the_others(_database: Database, scope: Scope) -> None:
    """End when four workers have loaded; the scope says where they note it."""
    Path(scope.by, f"{os.getpid()}.loaded").touch()
    while len([*Path(scope.by).glob("*.loaded")]) < len(FOUR):
        time.sleep(0.01)


def mark_turn(_database: Database, scope: Scope) -> int:
    """How many workers analyse while this one does."""
    mark = Path(scope.by, f"{os.getpid()}.turn")
    mark.touch()
    others = len([*Path(scope.by).glob("*.turn")])
    mark.unlink()
    return others


def test_all_workers_load_at_a_time_and_one_analyses(tmp_path: Path) -> None:
    analysis = Analysis("turns", mark_turn, listed, loads=wait_for_the_others)
    sources = [ReportSource(source.place, Scope(by=str(tmp_path))) for source in FOUR]
    with make_pool(len(FOUR), len(FOUR), make_turns(1, len(FOUR))) as pool:
        futures = [pool.submit(do_work, Work(source, (analysis,)), False) for source in sources]
        assert [future.result() for future in futures] == [[1]] * len(FOUR)


def test_small_reports_are_read_in_this_process(short_run: Path) -> None:
    sources = [ReportSource(f"{short_run}/rank{rank}.sqlite") for rank in range(4)]
    process = Analysis("process", lambda _database, _scope: os.getpid(), listed)
    assert collect_partials(sources, [process]) == [[os.getpid()]] * 4


def test_workers_collect_no_garbage_among_loaded_modules_and_use_no_huge_pages() -> None:
    frozen = Analysis("frozen", has_frozen, listed)
    pages = Analysis("pages", read_huge_pages, listed)
    answers = collect_partials(FOUR[:2], [frozen, pages], workers=2)
    assert answers in ([[True, ["THP_enabled:\t0"]]] * 2, [[True, []]] * 2)


def test_what_a_dead_worker_had_in_hand_is_done_again(tmp_path: Path) -> None:
    scope = Scope(by=str(tmp_path / "died"))
    sources = [ReportSource(source.place, scope) for source in FOUR]
    results = analyse_reports(sources, [Analysis("count", count_or_die_once, listed)], workers=2)
    assert (tmp_path / "died").exists()
    assert len(_rows(results)) == 4
    assert results.refusals == ()


def test_a_report_that_always_kills_its_worker_is_named_and_the_rest_is_shown() -> None:
    results = analyse_reports(FOUR, [Analysis("count", count_or_die, listed)], workers=2)
    assert _rows(results) == [f"rank{rank}.sqlite.gz" for rank in (0, 1, 3)]
    ((source, error),) = results.refusals
    assert source.name == "rank2.sqlite.gz"
    assert "killed its worker" in str(error)


def test_unreadable_reports_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    bad = tmp_path / "rank9.sqlite"
    bad.write_bytes(b"half")
    results = analyse_reports([ReportSource(str(bad)), FOUR[0]], [COUNT], workers=2)
    assert _rows(results) == ["rank0.sqlite.gz"]
    assert "rank9.sqlite" in str(results.refusals[0][1])
    with pytest.raises(ReportError, match=r"rank9\.sqlite"):
        analyse_reports([ReportSource(str(bad))], [COUNT])


def test_progress_is_said_only_after_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    analyse_reports(FOUR[:1], [COUNT], workers=1, notify=said.append)
    assert said == []
    monkeypatch.setattr("gpu_profile.analysis.multi_report.parallel.QUIET_S", -1.0)
    analyse_reports(FOUR[:2], [COUNT], workers=1, notify=said.append)
    assert said == ["1 of 2 reports read", "2 of 2 reports read"]


def test_a_url_is_read_where_fsspec_is(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    results = analyse_reports([ReportSource(f"file://{DATA}/rank0.sqlite.gz")], [COUNT])
    assert _rows(results) == ["rank0.sqlite.gz"]
    with pytest.raises(ReportError, match="cannot be read"):
        analyse_reports([ReportSource(f"file://{tmp_path}/none.sqlite")], [COUNT])


def test_packages_that_a_url_takes_are_told_in_the_words_of_fsspec(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ImportError('HTTPFileSystem requires "requests" and "aiohttp" to be installed')

    monkeypatch.setitem(sys.modules, "fsspec", SimpleNamespace(open=fail))
    with (
        pytest.raises(ToolError, match='"aiohttp" to be installed'),
        open_report("https://host/rank0.sqlite"),
    ):
        pass


@pytest.mark.parametrize("kind", [OSError, RuntimeError, asyncio.TimeoutError])
def test_a_scheduler_s_failure_is_a_line(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        def __init__(self, address: str, **_: object) -> None:
            raise kind(address)

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    with pytest.raises(ToolError, match="no Dask scheduler answers at tcp://h:1"):
        analyse_reports(FOUR, [COUNT], scheduler="tcp://h:1")


def test_no_scheduler_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("gpu_profile.analysis.multi_report.dask_cluster._CONNECT_S", 1)
    with pytest.raises(ToolError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        analyse_reports(FOUR, [COUNT], scheduler="tcp://127.0.0.1:1")
