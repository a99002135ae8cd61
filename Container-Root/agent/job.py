"""Start, watch, stop and fetch one job in its own directory. Standard library and Python 3.8 only.

    python3 job.py start DIR          a JSON spec on standard input, see `start`
    python3 job.py status DIR         one JSON line
    python3 job.py logs DIR [--follow]
    python3 job.py stop DIR           so that nsys finalises; waits for it
    python3 job.py names DIR          what to fetch, one JSON line
    python3 job.py copy DIR TO        the same, copied
    python3 job.py take DIR TO        the same, moved; DIR belongs to other users too
    python3 job.py pack DIR           the same, as a tar on standard output
    python3 job.py unpack ARCHIVE TO [--exports]  what pack (or a pod) wrote; removes ARCHIVE
    python3 job.py stage TO           a directory in TO for rsync to write into
    python3 job.py adopt TO           what rsync brought there
    python3 job.py export DIR REPORT  its SQLite export, on standard output
    python3 job.py remove DIR         a finished job's directory
    python3 job.py discard FILE       an archive that was sent

The job outlives the connection that started it: a supervisor in a session of its own holds
DIR/job.lock, writes DIR/job.json and DIR/job.log, and looks for DIR/job.stop. Every verb may be
repeated. A refusal exits 2, 3 or 5 with one line on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import job_files
from job_run import FINALISE_S, supervise
from job_spec import HERE, complete_spec, find_nsys_of
from job_state import (
    FINISHED,
    LOG,
    POLL_S,
    START_S,
    STATE,
    STOP,
    RefusedError,
    append,
    claim,
    current,
    last_line,
    mark_lost,
    read,
    require_own,
)
from process_tree import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_OF_FILES = ("unpack", "stage", "adopt", "discard", "take")
"""Verbs whose first word is no job's directory."""


def start(job: Path) -> dict[str, Any]:
    """Start the job of the JSON spec on standard input, once. The same spec again starts nothing.

    The spec has `arguments` (of profile.py, with the command after `--`; a relative --output is
    below DIR), `env` (variables to add), `cwd` (empty: the current directory) and `nsys` (empty:
    the newest copy). The spec is not written to the disk, because it may hold secrets: job.json
    keeps its SHA-256 only.
    """
    text = sys.stdin.read()
    key = hashlib.sha256(text.encode()).hexdigest()
    if not (job / STATE).exists():
        spec, nsys = complete_spec(json.loads(text), job)
        claim(job, {"state": "starting", "key": key, "nsys": nsys})
        try:
            supervisor = _spawn(job, spec)
        except OSError as error:
            mark_lost(job, f"it did not start: {error}")
            return status(job)
        _await_start(job, supervisor.poll)
    if read(job).get("key") != key:
        raise RefusedError(f"{job} holds another job already. Use another name")
    _await_start(job, lambda: None)
    return status(job)


def _await_start(job: Path, exit_code: Callable[[], int | None]) -> None:
    """Wait until the supervisor has started the job, or is gone before it could."""
    deadline = time.monotonic() + START_S
    while read(job)["state"] == "starting" and time.monotonic() < deadline:
        if exit_code() is not None and read(job)["state"] == "starting":
            mark_lost(job, f"it did not start: {last_line(job)}")
        time.sleep(POLL_S / 10)


def _spawn(job: Path, spec: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    with append(job / LOG) as log:
        supervisor = subprocess.Popen(
            [sys.executable, str(HERE / "job.py"), "supervise", str(job)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            **detached(),
        )
    assert supervisor.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: its log says why
        supervisor.stdin.write(json.dumps(spec).encode())
        supervisor.stdin.close()
    return supervisor


def detached() -> dict[str, Any]:
    """Return the Popen arguments of a child that outlives its parent's terminal or connection."""
    if os.name == "nt":
        flags = ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW", "CREATE_BREAKAWAY_FROM_JOB")
        return {"creationflags": sum(getattr(subprocess, flag, 0) for flag in flags)}
    return {"start_new_session": True}


def status(job: Path) -> dict[str, Any]:
    """Return the job's state without the spec's key, with its directory and last line of output."""
    state = current(job)
    state.pop("key", None)
    return {**state, "directory": str(job), "last_line": last_line(job)}


def stop(job: Path) -> dict[str, Any]:
    """Ask the supervisor to end the job, and wait until its reports are complete."""
    if current(job)["state"] not in FINISHED:
        append(job / STOP).close()
    # The supervisor kills what is left FINALISE_S after the request, an nsys at work LONGEST_S
    # later.
    deadline = time.monotonic() + FINALISE_S + LONGEST_S + START_S
    while current(job)["state"] not in FINISHED and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return status(job)


def logs(job: Path, follow: bool) -> None:
    """Print the output so far; with `follow`, until the job ends."""
    with (job / LOG).open("rb") as file:
        while True:
            # The state before the output: what a job writes between the two would be left out.
            ended = not follow or current(job)["state"] in FINISHED
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            if ended:
                return
            time.sleep(POLL_S)


def export(job: Path, report: str, nsys_path: str) -> None:
    """Write the SQLite export of a report to standard output.

    The nsys that recorded the report makes it where job.json names one: another version may not be
    able to read the report. The job's own disk may be full, so the roomier of two is used.
    """
    places = (str(job), tempfile.gettempdir())
    roomier = max(places, key=lambda place: shutil.disk_usage(place).free)
    with tempfile.TemporaryDirectory(dir=roomier) as scratch:
        output = Path(scratch) / "export.sqlite"
        nsys = (read(job)["nsys"] if (job / STATE).exists() else find_nsys_of(nsys_path))["path"]
        # NVTX payloads hold NCCL's message sizes. nsys 2023.4 refuses --include-blobs, so the
        # second attempt leaves it out.
        for more in (["--include-blobs=true"], ["--force-overwrite=true"]):
            argv = [nsys, "export", "--type=sqlite", *more, f"--output={output}"]
            words = [*argv, str(job / report)]
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
            if done.returncode == 0:
                break
        if done.returncode or not output.exists():
            raise RefusedError(f"{report} cannot be exported on {platform.node()}", 3)
        with output.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)


def remove(job: Path) -> None:
    """Remove the directory of a finished job. Raises RefusedError for a running job."""
    if not job.exists():
        return
    if current(job)["state"] not in FINISHED:
        raise RefusedError(f"the job in {job} still runs")
    shutil.rmtree(job)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A job of one machine.")
    verbs = ("start", "supervise", "status", "logs", "stop", "remove")
    files = ("names", "copy", "take", "pack", "unpack", "stage", "adopt", "export", "discard")
    parser.add_argument("verb", choices=(*verbs, *files))
    parser.add_argument("directory", type=Path)
    parser.add_argument("to", type=Path, nargs="?", default=Path())
    parser.add_argument("--follow", "-f", action="store_true")
    parser.add_argument("--exports", action="store_true")
    parser.add_argument("--nsys", default="")
    return parser.parse_args(argv)


def _answer(options: argparse.Namespace) -> object:
    """Run the verb. Its result, if any, is printed as one JSON line."""
    job, to = options.directory.expanduser().absolute(), options.to.absolute()
    if options.verb not in _OF_FILES:
        require_own(job)
    verbs: dict[str, Callable[[], object]] = {
        "start": lambda: start(job),
        "supervise": lambda: supervise(job),
        "status": lambda: status(job),
        "stop": lambda: stop(job),
        "logs": lambda: logs(job, options.follow),
        "names": lambda: job_files.names(job),
        "copy": lambda: job_files.copy(job, to),
        "take": lambda: job_files.take(job, to),
        "pack": lambda: job_files.pack(job),
        "unpack": lambda: job_files.unpack(job, to, options.exports),
        "stage": lambda: job_files.stage(job),
        "adopt": lambda: job_files.adopt(job),
        "export": lambda: export(job, options.to.name, options.nsys),
        "remove": lambda: remove(job),
        "discard": lambda: job.unlink(missing_ok=True),
    }
    return verbs[options.verb]()


def main(argv: Sequence[str] | None = None) -> int:
    try:
        answer = _answer(_options(argv))
    except RefusedError as error:
        print(error, file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"{error.filename or 'the job'}: {error.strerror}", file=sys.stderr)
        return 3
    if answer is not None:
        print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
