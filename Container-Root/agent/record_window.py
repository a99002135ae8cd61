#!/usr/bin/env python3
"""Ask the agents of a job for a window, and wait for it. Python 3.8, stdlib only.

    python3 record_window.py request DIR --seconds S [--ranks all|0,3] [--lead S]
    python3 record_window.py await DIR NUMBER

`request` prints {"window": 3, "names": ["rank0.host"], "start": …}: all these ranks begin at that
time. `await` returns when each has answered, with {"answers": {"rank0.host": {"state": "done"}}}.
A rank whose agent is gone has lost its window. DIR is the run directory of a job of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import window_files
from job_state import RefusedError, require_own
from process_tree import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Sequence

_POLL_S = 0.1
_GRACE_S = 2.0  # an agent that has ended writes its last answer before it drops its lock
_RANK = re.compile(r"rank(\d+)\.")
NOT_ARMED = (
    "no rank of this job is armed, and no tool can attach nsys to a program that runs. Start it by"
    " `invoke profile --record manual`"
)


def request(job: Path, seconds: float, ranks: str, lead_s: float) -> dict[str, Any]:
    """Ask the armed ranks for a window that begins in `lead_s` seconds."""
    folder = job / window_files.FOLDER
    armed = window_files.list_armed(folder) if folder.is_dir() else []
    if not armed:
        raise RefusedError(NOT_ARMED)
    names = [name for name in armed if is_wanted(name, ranks)]
    missing = list_missing(names, ranks)
    if missing or not names:
        raise RefusedError(f"--ranks {ranks} are not all armed: {', '.join(armed)} are")
    held = window_files.lock(folder / "record.lock")
    if held is None:
        raise RefusedError(
            "another window of this job is being asked for. Try again in a second", 3
        )
    try:
        number = 1 + max([*window_files.list_requests(folder), *_list_reports(job)], default=0)
        facts = {"start": time.time() + lead_s, "seconds": seconds, "names": names}
        window_files.write(window_files.request_file(folder, number), facts)
    finally:
        os.close(held)
    return {"window": number, **facts}


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


def await_answers(job: Path, number: int) -> dict[str, Any]:
    """Wait until each rank of a request has answered, or its agent is gone."""
    folder = job / window_files.FOLDER
    facts = window_files.read(window_files.request_file(folder, number))
    if not facts:
        raise RefusedError(f"{job} has no window {number}")
    deadline = facts["start"] + facts["seconds"] + LONGEST_S
    answers = {name: await_answer(folder, number, name, deadline) for name in facts["names"]}
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
    parser.add_argument("verb", choices=("request", "await"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("number", type=int, nargs="?", default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--ranks", default="all")
    parser.add_argument("--lead", type=float, default=2.0)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(argv)
    job = options.directory.expanduser().absolute()
    try:
        require_own(job / window_files.FOLDER)
        if options.verb == "request":
            answer = request(job, options.seconds, options.ranks, options.lead)
        else:
            answer = await_answers(job, options.number)
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
