"""Windows that come again: when they begin, and which are kept."""

from pathlib import Path

import window_schedule
from torch_session import TorchSession


def test_old_windows_of_all_ranks_below_one_agent_are_removed(tmp_path: Path) -> None:
    """torch.profiler writes a trace for each rank that torchrun starts."""
    session = TorchSession(tmp_path, "rank0.h", "rank*")
    kept = ["rank0.h.4.pt.trace.json.gz", "rank1.h.2.pt.trace.json.gz", "rank1.h.4.nsys-rep"]
    old = ["rank0.h.3.pt.trace.json.gz", "rank1.h.3.pt.trace.json.gz", "rank1.h.3.sqlite"]
    for name in (*kept, *old, "rank1.other.3.pt.trace.json.gz"):
        (tmp_path / name).touch()
    reports = session.compile_reports("rank0.h")
    window_schedule.remove_old(tmp_path, "rank0.h", {"first": 3, "keep": 1}, reports)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [*kept, "rank1.other.3.pt.trace.json.gz"]


def test_when_a_window_of_a_schedule_begins() -> None:
    schedule = {"first": 5, "start": 1000.0, "every": 600}
    times = (990.0, 999.5, 1000.05, 1000.5, 1599.0, 2200.0)
    due = [window_schedule.find_due(schedule, now) for now in times]
    assert due == [None, (5, 1000.0), (5, 1000.0), None, (6, 1600.0), (7, 2200.0)]
