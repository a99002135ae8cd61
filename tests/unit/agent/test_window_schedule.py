"""Windows that come again: when they begin, and which are kept."""

from pathlib import Path

import window_files
import window_schedule
from torch_session import TorchSession, Traces


def test_old_windows_of_all_ranks_below_one_agent_are_removed(tmp_path: Path) -> None:
    """torchrun has chosen their ranks: those of a second node are not that of its profile.py."""
    session, traces = TorchSession(tmp_path, "rank1.h"), Traces(tmp_path, "rank1.h")
    with traces.made():
        for number in (2, 3, 4):
            for rank in (8, 9):
                traces.first.with_name(f"rank{rank}.h.pt.trace.json").touch()
            adopted = session.adopt(tmp_path / f"rank1.h.{number}.pt.trace.json.gz")
            assert adopted == tmp_path / f"rank8.h.{number}.pt.trace.json.gz"
    assert session.adopt(tmp_path / "rank1.h.5.pt.trace.json.gz") is None
    others = ["rank0.h.3.pt.trace.json.gz", "rank9.other.3.pt.trace.json.gz"]
    for name in (*others, "rank9.h.3.sqlite"):
        (tmp_path / name).touch()
    reports = session.compile_reports("rank1.h")
    window_schedule.remove_old(tmp_path, "rank1.h", {"first": 3, "keep": 1}, reports)
    kept = [f"rank{rank}.h.{number}.pt.trace.json.gz" for rank in (8, 9) for number in (2, 4)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, *kept])


def test_answers_on_lost_windows_are_removed_too(tmp_path: Path) -> None:
    """A full disk loses window after window."""
    folder = tmp_path / window_files.FOLDER
    folder.mkdir()
    for number in range(1, 9):
        window_files.write(window_files.answer_file(folder, number, "rank0.h"), {"state": "lost"})
    (tmp_path / "rank0.h.4.nsys-rep").touch()
    other = window_files.answer_file(folder, 3, "rank1.h")
    window_files.write(other, {"state": "lost"})
    reports = window_schedule.compile_reports(("rank0",), "h", ".nsys-rep")
    window_schedule.remove_old(tmp_path, "rank0.h", {"first": 2, "keep": 2}, reports)
    left = {path.name for path in folder.iterdir()}
    assert left == {other.name, *(f"answer-{number}-rank0.h.json" for number in (1, 4, 7, 8))}
    assert (tmp_path / "rank0.h.4.nsys-rep").exists()


def test_when_a_window_of_a_schedule_begins() -> None:
    schedule = {"first": 5, "start": 1000.0, "every": 600}
    times = (990.0, 999.5, 1000.05, 1000.5, 1599.0, 2200.0)
    due = [window_schedule.find_due(schedule, now) for now in times]
    assert due == [None, (5, 1000.0), (5, 1000.0), None, (6, 1600.0), (7, 2200.0)]
