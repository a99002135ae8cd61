#!/usr/bin/env python3
"""Ask the agents of a job for a window, and wait for it. Python 3.8, stdlib only.

    python3 record_window.py request DIR --seconds S [--steps N] [--ranks all|0,3] [--lead S]
    python3 record_window.py await DIR NUMBER
    python3 record_window.py schedule DIR --every S --keep N --seconds S [--ranks all|0,3]
    python3 record_window.py armed DIR
    python3 record_window.py request DIR --seconds S --number 3 --start T --names rank0.host,…

`request` prints {"window": 3, "names": ["rank0.host"], "start": …}: all these ranks begin at that
time. `await` returns when each has answered, with {"answers": {"rank0.host": {"state": "done"}}}.
A rank whose agent is gone has lost its window. With --steps it ends after N whole steps, and
after S seconds at the latest. `schedule` has the agents record by themselves; with `--every 0` no
longer. DIR is the run directory of a job of this machine.

Where a job has several pods, each with a DIR of its own, `armed` prints this host's ranks, the last
window and the clock, `request` gets what was chosen from the answers of all, and `await --here`
waits for the ranks of this host.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import window_files
import window_schedule
from job_state import RefusedError, require_own
from process_tree import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_POLL_S = 0.1
_GRACE_S = 2.0  # an agent that has ended writes its last answer before it drops its lock
_SHARED_S = 1.0
_RANK = re.compile(r"rank(\d+)\.")
END_IT = "`invoke record --every off` ends that"
NO_STEPS = "no step of it is marked. Use --seconds 5"
BUSY = "another window of this job is being asked for. Try again in a second"
NOT_ARMED = (
    "no rank of this job is armed, and no tool can attach nsys to a program that runs. Start it by"
    " `invoke profile --record manual`"
)


def request(job: Path, window: Mapping[str, float], ranks: str, lead_s: float) -> dict[str, Any]:
    """Ask the armed ranks for a window that begins in `lead_s` seconds."""
    folder = job / window_files.FOLDER
    armed = window_files.list_armed(folder) if folder.is_dir() else []
    if not armed:
        raise RefusedError(NOT_ARMED)
    names = [name for name in armed if is_wanted(name, ranks)]
    missing = list_missing(names, ranks)
    if missing or not names:
        raise RefusedError(f"--ranks {ranks} are not all armed: {', '.join(armed)} are")
    without = list_missing_steps(folder, names) if window.get("steps") else []
    if without:
        raise RefusedError(f"{', '.join(without)}: {NO_STEPS}")
    with held_for_request(folder):
        facts = {"start": time.time() + lead_s, **window, "names": names}
        return write_request(folder, 1 + find_last(job), facts)


def end_schedule(job: Path) -> dict[str, Any]:
    """End a schedule, and wait for the window that is being recorded."""
    folder = job / window_files.FOLDER
    window_schedule.end_schedule(folder)
    deadline = time.time() + LONGEST_S
    for number, name in window_schedule.list_open(folder):
        await_answer(folder, number, name, deadline)
    return {"window": find_last(job)}


def list_missing_steps(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the ranks of which no step is counted, as without marks."""
    return [name for name in names if not window_files.read_steps(folder, name)]


def request_agreed(job: Path, number: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for the window that was agreed on for the ranks of all hosts.

    Pods with one claim ask beside each other in one folder.
    """
    folder = job / window_files.FOLDER
    with held_for_request(folder, _SHARED_S):
        earlier = window_files.read(window_files.request_file(folder, number))
        if earlier and earlier != facts:
            raise RefusedError(BUSY, 3)
        return write_request(folder, number, facts)


@contextlib.contextmanager
def held_for_request(folder: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Let one process at a time choose a window's number. Raises RefusedError for another one."""
    deadline = time.monotonic() + wait_s
    while True:
        held = window_files.lock(folder / "record.lock")
        if held is not None:
            break
        if time.monotonic() >= deadline:
            raise RefusedError(BUSY, 3)
        time.sleep(_POLL_S)
    try:
        yield
    finally:
        os.close(held)


def write_request(folder: Path, number: int, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write a request, or the schedule that `facts` are. Raises RefusedError beside a schedule."""
    schedule = window_schedule.read_schedule(folder)
    ours = {"first": number, **facts}
    if schedule and schedule != ours:
        raise RefusedError(f"a window is recorded each {schedule.get('every')} s: {END_IT}", 2)
    if "every" in facts:
        window_schedule.write_schedule(folder, ours)
    else:
        window_files.write(window_files.request_file(folder, number), facts)
    return {"window": number, **facts}


def list_armed_here(job: Path) -> dict[str, Any]:
    """Return this host's armed ranks, those without steps, the last window, and the clock."""
    folder = job / window_files.FOLDER
    armed = window_files.list_armed(folder) if folder.is_dir() else []
    here = [name for name in armed if is_of_this_host(name)]
    without = list_missing_steps(folder, here)
    return {"names": here, "without_steps": without, "last": find_last(job), "now": time.time()}


def is_of_this_host(name: str) -> bool:
    return name.partition(".")[2] == window_files.name_host()


def find_last(job: Path) -> int:
    """Return the number of the last window that was asked for or recorded, 0 for none."""
    requests = window_files.list_requests(job / window_files.FOLDER)
    answered = window_schedule.find_last_answer(job / window_files.FOLDER)
    return max([answered, *requests, *_list_reports(job)])


def is_wanted(name: str, ranks: str) -> bool:
    match = _RANK.match(name)
    return ranks == "all" or (match is not None and match[1] in ranks.split(","))


def list_missing(names: Sequence[str], ranks: str) -> list[str]:
    """Return the ranks that were named and have no armed agent."""
    wanted = [] if ranks == "all" else ranks.split(",")
    return [rank for rank in wanted if not any(is_wanted(name, rank) for name in names)]


def _list_reports(job: Path) -> list[int]:
    """Return the windows' numbers among the reports of a job."""
    parts = (path.name.split(".") for path in job.glob("rank*.nsys-rep"))
    return [int(words[-2]) for words in parts if len(words) > 3 and words[-2].isdigit()]


def await_answers(job: Path, number: int, *, here: bool = False) -> dict[str, Any]:
    """Wait until each rank of a request, with `here` of this host, has answered or is gone."""
    folder = job / window_files.FOLDER
    facts = window_files.read(window_files.request_file(folder, number))
    if not facts:
        raise RefusedError(f"{job} has no window {number}")
    deadline = facts["start"] + facts["seconds"] + LONGEST_S
    names = [name for name in facts["names"] if not here or is_of_this_host(name)]
    answers = {name: await_answer(folder, number, name, deadline) for name in names}
    return {"window": number, "answers": answers}


def await_answer(folder: Path, number: int, name: str, deadline: float) -> dict[str, Any]:
    """Return the answer of one rank, which is lost after `deadline`, seconds since the epoch."""
    gone_since = 0.0
    while time.time() < deadline:
        answer = window_files.read(window_files.answer_file(folder, number, name))
        if answer.get("state") in (window_files.DONE, window_files.LOST):
            return answer
        if name in window_files.list_armed(folder):
            gone_since = 0.0
        elif not gone_since:
            gone_since = time.monotonic()
        elif time.monotonic() - gone_since > _GRACE_S:
            return {"state": window_files.LOST, "why": "its profile.py has ended or was killed"}
        time.sleep(_POLL_S)
    return {"state": window_files.LOST, "why": f"it did not answer in {LONGEST_S:g} s"}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A window of a job that runs.")
    parser.add_argument("verb", choices=("request", "schedule", "await", "armed"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("window", type=int, nargs="?", default=0)
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--number", type=int, default=0)
    parser.add_argument("--start", type=float, default=0.0)
    parser.add_argument("--names", default="")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--every", type=float, default=0.0)
    parser.add_argument("--keep", type=int, default=48)
    parser.add_argument("--ranks", default="all")
    # Agents look each 0.25 s (record_windows.py), on each node of the job.
    parser.add_argument("--lead", type=float, default=2.0)
    return parser.parse_args(argv)


def _answer(job: Path, options: argparse.Namespace) -> dict[str, Any]:
    if options.verb == "armed":
        return list_armed_here(job)
    if options.verb == "await":
        return await_answers(job, options.window, here=options.here)
    window = {"seconds": options.seconds, **({"steps": options.steps} if options.steps else {})}
    if options.verb == "schedule":
        if not options.every:
            return end_schedule(job)
        window.update({"every": options.every, "keep": options.keep})
    if not options.number:
        return request(job, window, options.ranks, options.lead)
    facts = {"start": options.start, **window, "names": options.names.split(",")}
    return request_agreed(job, options.number, facts)


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    job = options.directory.expanduser().absolute()
    try:
        require_own(job / window_files.FOLDER)
        answer = _answer(job, options)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"{error.filename or job}: {error.strerror}", file=sys.stderr)
        return 3
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
