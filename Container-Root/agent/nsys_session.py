"""Control the nsys session of one rank, by its name. Python 3.8, stdlib only.

No other session is touched: `nsys sessions list` shows those of all programs of this user. nsys'
exit code 0 says little: `nsys start` of an unknown session makes an empty one and returns 0. So the
state of a session is read first, and a report counts once its file is there.
"""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

from process_tree import LONGEST_S
from rank_processes import own_session
from window_schedule import compile_reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from re import Pattern

COLLECTING = "Collection"
_WAITING = ("DelayedCollection", "Launched")
"""The states of a session that records nothing: before its first window, and after one."""
_POLL_S = 0.2  # a call of nsys takes 60 ms of one processor
_ANSWER_S = 60.0


class Session:
    """The session that `nsys profile` makes for a rank. `environ` is that of nsys itself.

    `first_report` is the path that nsys gives to the first report, where nothing was recorded
    before; None otherwise.
    """

    ending = ".nsys-rep"
    needs_idle_gpu = True
    """At the end of a window: CUPTI gives no buffer of a thread while a kernel of it runs."""

    def __init__(
        self,
        nsys: str,
        rank: int,
        environ: Mapping[str, str],
        first_report: Path | None = None,
        name: str = "",
    ) -> None:
        # Names are visible to all programs of this user and TMPDIR.
        self.name = name or f"gpu-profile-rank{rank}-{os.getpid()}-{os.urandom(3).hex()}"
        self._nsys = nsys
        self._environ = environ
        self._first_report = first_report

    def compile_reports(self, name: str) -> Pattern[str]:
        """Return what matches the reports of the rank `name`, `rank0.host`."""
        rank, _, host = name.partition(".")
        return compile_reports((rank,), host, self.ending)

    def describe(self) -> dict[str, str]:
        """Return what others need to end a window: see left_windows.py."""
        return {"nsys": self._nsys, "session": self.name}

    def state(self) -> str:
        """Return nsys' word: Collection, DelayedCollection, Generation or Launched; "" if none.

        A row of `nsys sessions list` is `1031343  00:04  Collection  1  NAME`.
        """
        # -p false: no line of headings.
        done = self._call("sessions", "list", "-p", "false")
        rows = (line.split() for line in done.stdout.splitlines())
        return next((row[-3] for row in rows if len(row) > 3 and row[-1] == self.name), "")

    def start(self, output: str) -> str:
        """Begin a collection whose report will be `output`, without its ending; "" if it runs.

        Otherwise it returns why not. nsys 2023.4.4 gives the first report after `--start-later` the
        name that `nsys profile` got. `nsys start` returns after 0.12 to 0.6 s; the first event is
        recorded within 0.03 s of that.
        """
        state = self.state()
        if state not in _WAITING:
            # The list may show the last state of an nsys that was killed.
            return f"nsys is not ready, its state is {state or 'unknown'}"
        escaped = output.replace("%", "%%")  # nsys replaces %h, %p and %q{NAME}
        done = self._call("start", f"--session={self.name}", f"--output={escaped}")
        return "" if self.state() == COLLECTING else f"nsys start: {_describe(done)}"

    def stop(self, at_end: Callable[[], None] = lambda: None) -> str:
        """End the collection, and wait until nsys has made its report. The program runs on.

        `at_end` is called once nothing more is recorded, which is seconds before the report is
        there. Returns what nsys says of a failure, "" if it names none.
        """
        if self.state() != COLLECTING:
            return "nsys records nothing"
        ended = threading.Event()
        watch = threading.Thread(target=self._await_end, args=(ended, at_end), daemon=True)
        watch.start()
        try:
            done = self._stop()
            if done.returncode < 0:  # `nsys stop` was killed, and its session records on
                done = self._stop()
        finally:
            ended.set()
        watch.join()
        return "" if done.returncode == 0 else _describe(done)

    def _stop(self) -> subprocess.CompletedProcess[str]:
        return self._call("stop", f"--session={self.name}", within_s=LONGEST_S)

    def adopt(self, report: Path) -> Path | None:
        """Give what nsys has written the name of `report`. Returns that; None if there is nothing.

        An nsys whose importer was killed leaves its stream in place of a report, and one that was
        killed meanwhile an empty report.
        """
        first, left = self._first_report, False
        for ending in (self.ending, ".qdstrm"):
            named = report.with_suffix(ending)
            if first is not None and first.with_suffix(ending).exists() and not named.exists():
                first.with_suffix(ending).replace(named)
            left = left or named.exists()
        if left:
            self._first_report = None
        return report if left else None

    def _await_end(self, ended: threading.Event, at_end: Callable[[], None]) -> None:
        while not ended.wait(_POLL_S):
            if self.state() not in (COLLECTING, ""):
                at_end()
                return

    def _call(self, *words: str, within_s: float = _ANSWER_S) -> subprocess.CompletedProcess[str]:
        argv = [self._nsys, *words]
        try:
            return subprocess.run(
                argv,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=within_s,
                check=False,
                **own_session(),
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 1, f"no answer in {within_s:g} s", "")
        except OSError as error:
            return subprocess.CompletedProcess(argv, 1, str(error), "")


def _describe(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a call that failed, or how it ended."""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return lines[-1] if lines else f"it ended by {how} and said nothing"
