"""Windows that come again each 10 minutes: when they begin, and which are kept. Python 3.8, stdlib.

`windows/schedule.json` holds {"first": 5, "start": 1795.2, "every": 600, "seconds": 2, "keep": 48,
"names": ["rank0.host"]}: window 5 begins at `start`, window 6 at `start` + 600, in all these ranks.
"""

from __future__ import annotations

import contextlib
import math
import re
from typing import TYPE_CHECKING, Any

import window_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path
    from re import Pattern

_FILE = "schedule.json"
_SOON_S = 1.0
_ANSWER = re.compile(r"answer-(\d{1,6})-(rank\d+\..+)\.json")


def read_schedule(folder: Path) -> dict[str, Any]:
    """Return the schedule of a job; empty without one."""
    return window_files.read(folder / _FILE)


def write_schedule(folder: Path, schedule: Mapping[str, Any]) -> None:
    window_files.write(folder / _FILE, schedule)


def end_schedule(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (folder / _FILE).unlink()


def find_due(schedule: Mapping[str, Any], now: float) -> tuple[int, float] | None:
    """Return number and beginning of the window that begins in a second; None if none does.

    One that is late by more than a tenth of a second is left out: other ranks have begun.
    """
    start, every = float(schedule["start"]), float(schedule["every"])
    tick = max(0, math.ceil((now - 0.1 - start) / every))
    begins = start + tick * every
    return (int(schedule["first"]) + tick, begins) if begins - now <= _SOON_S else None


def list_open(folder: Path) -> list[tuple[int, str]]:
    """Return the windows without an end, and the rank's name of each."""
    matches = ((path, _ANSWER.match(path.name)) for path in sorted(folder.glob("answer-*.json")))
    ends = (window_files.DONE, window_files.LOST)
    return [
        (int(match[1]), match[2])
        for path, match in matches
        if match and window_files.read(path).get("state") not in ends
    ]


def find_last_answer(folder: Path) -> int:
    """Return the highest number of a window that a rank answered, 0 for none."""
    matches = (_ANSWER.match(path.name) for path in folder.glob("answer-*.json"))
    return max((int(match[1]) for match in matches if match), default=0)


def _list_answers(folder: Path, name: str) -> Iterator[tuple[int, Path]]:
    """Yield number and file of each answer of the rank `name`."""
    for path in folder.glob(f"answer-*-{name}.json"):
        match = _ANSWER.fullmatch(path.name)
        if match and match[2] == name:
            yield int(match[1]), path


def compile_reports(ranks: Iterable[str], host: str, ending: str) -> Pattern[str]:
    """Return what matches the names of windows' reports: (`rank0.host.(3)`).nsys-rep."""
    rank = "|".join(sorted(ranks))
    return re.compile(rf"((?:{rank})\.{re.escape(host)}\.(\d{{1,6}})){re.escape(ending)}")


def remove_old(output: Path, name: str, schedule: Mapping[str, Any], reports: Pattern[str]) -> None:
    """Remove the scheduled windows of an agent, but for the latest `keep`, and its old answers.

    A window that was lost has an answer and no report.
    """
    first, keep = int(schedule["first"]), int(schedule["keep"])
    files: dict[int, list[Path]] = {}
    for path in output.iterdir():
        match = reports.fullmatch(path.name)
        if match and int(match[2]) >= first:
            exported = path.with_name(f"{match[1]}.sqlite")
            files.setdefault(int(match[2]), []).extend((path, exported))
    kept = set(sorted(files)[-keep:])
    old = [path for number, paths in files.items() if number not in kept for path in paths]
    answers = dict(_list_answers(output / window_files.FOLDER, name))
    end = max(answers, default=0) - keep
    old += [
        path for number, path in answers.items() if first <= number <= end and number not in kept
    ]
    for path in old:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
