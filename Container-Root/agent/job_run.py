"""The supervisor of a job: it starts the job, waits, stops it on request, and records its end.

job.py starts it in a session of its own. It reads what to run from standard input.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from job_state import LOG, POLL_S, STOP, disk_full, hold, read, write
from left_windows import end_left_windows
from process_tree import (
    KILL,
    adopt_orphans,
    descendants,
    end_descendants,
    end_idle,
    list_profiled,
    send,
)
from rank_processes import STOPPING, await_orphans, own_session
from redact_output import copy_output, credential_remover

if TYPE_CHECKING:
    from pathlib import Path

# Longer than profile.py's grace of 90 s. A rank that is not recorded replaces profile.py by exec,
# so only this limit ends it. nsys at work on its report gets LONGEST_S (3600 s).
FINALISE_S = 150.0
_OUTPUT_S = 10.0  # no descendant is left that could write
_TAIL_BYTES = 1 << 16
# The line of start_ranks.py that names the rank whose failure ended the others.
_FIRST_END = re.compile(r"profile\.py: (rank \d+ ended with exit code \d+)")


class _Child:
    """The running job. A stop can be requested by the file job.stop or by a signal."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.stopped_at = 0.0
        self.is_asked_to_stop = False
        adopt_orphans()
        self._environ = environ = {**os.environ, **spec["env"]}
        self.process = subprocess.Popen(
            spec["argv"],
            cwd=spec["cwd"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **own_session(),
        )
        copied = (self.process.stdout, sys.stdout.buffer, credential_remover(environ))
        self._output = threading.Thread(target=copy_output, args=copied, daemon=True)
        self._output.start()

    def ask(self, *_: object) -> None:
        self.is_asked_to_stop = True

    def wait(self, job: Path) -> int:
        """Wait for the job's end and return its exit code. A stop file or signal ends it."""
        while self.process.poll() is None:
            if not self.stopped_at and (self.is_asked_to_stop or (job / STOP).exists()):
                self._stop()
            if self.stopped_at and time.monotonic() - self.stopped_at > FINALISE_S:
                end_idle()
                self.process.kill()  # for systems without /proc, where end_idle finds no process
            time.sleep(POLL_S)
        code = self.process.returncode
        if code == -KILL and not self.stopped_at:
            code = self._await_program(job)
        end_descendants(0)
        self._output.join(_OUTPUT_S)
        return code

    def _await_program(self, job: Path) -> int:
        """Wait for what a killed profile.py ran, which goes on. Returns its exit code."""
        codes: list[int] = []

        def await_left() -> None:
            end_left_windows(job, self._environ)
            codes.append(await_orphans())

        waiter = threading.Thread(target=await_left, daemon=True)
        waiter.start()
        while waiter.is_alive():
            if not self.stopped_at and (self.is_asked_to_stop or (job / STOP).exists()):
                self.stopped_at = time.monotonic()
                send(signal.SIGTERM, list_profiled() or descendants())
            if self.stopped_at and time.monotonic() - self.stopped_at > FINALISE_S:
                end_idle()
            waiter.join(POLL_S)
        return codes[0]

    def _stop(self) -> None:
        """Send SIGTERM to profile.py, which passes it to nsys or to the ranks."""
        self.stopped_at = time.monotonic()
        self.process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))


def _tail(job: Path) -> str:
    with (job / LOG).open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def _reason(job: Path, code: int) -> str:
    if disk_full(shutil.disk_usage(str(job)).free):
        return f"the disk of {job} is full"
    first = _FIRST_END.search(_tail(job)) if code else None
    if first:
        return first.group(1)
    # profile.py, like a shell, ends with 128 + n where signal n ended its program.
    number = -code if code < 0 else code - 128
    if number in {s.value for s in signal.Signals}:
        return f"ended by {signal.Signals(number).name}"
    return ""


def supervise(job: Path) -> None:
    """Run the job to its end and write job.json. Called in the session that job.py made."""
    spec = json.load(sys.stdin)
    held = hold(job)
    if held is None:
        return
    child = _Child(spec)
    for number in STOPPING:
        signal.signal(number, child.ask)
    started = {**read(job), "pid": child.process.pid, "started": time.time()}
    write(job, {**started, "state": "running"})
    code = child.wait(job)
    done = "cancelled" if child.stopped_at else "succeeded" if code == 0 else "failed"
    reason = "stopped" if child.stopped_at else _reason(job, code)
    end = {"exit_code": code, "reason": reason, "ended": time.time()}
    write(job, {**started, **end, "state": done})
    # Last: where the lock is free and no end is written, the job counts as lost.
    held.close()
