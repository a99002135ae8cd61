"""Record windows of a rank when record_window.py asks for them. Python 3.8, stdlib only.

A window that could not be recorded is answered with the reason. The program is left alone: only the
rank's own nsys session is started and stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shelter
import window_files
import window_schedule
from process_tree import LONGEST_S
from rank_processes import say
from room_watch import LEAST_ROOM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from nsys_session import Session
    from torch_session import TorchSession

_POLL_S = 0.25
_STEP_POLL_S = 0.02
_LEAST_ROOM = 8 * LEAST_ROOM
"""A window ends before nsys' folder has less than 128 MB free: what nsys holds in memory, its
stream and the report still have to be written."""
_MOST_LATE_S = 1.0
"""A window that would begin later than that beside other ranks' is not begun."""
_LATE = "its time had passed: another window was being recorded, or the machines' clocks differ"
_IDLE_S = 5.0
"""A window without whole steps, or of longer ones, ends while the program runs."""
_LOCK_S = 1.0


class Windows:
    """The windows of one rank. `name` is that of its reports, `rank0.host`."""

    def __init__(self, session: Session | TorchSession, output: Path, name: str) -> None:
        self.address = ""
        """The marks end no window."""
        self.at_report: Callable[[], None] = lambda: None
        self.session = session
        self._output = output
        self._name = name
        self._folder = output / window_files.FOLDER
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Answer requests while the body runs."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        armed = self._folder / f"armed-{self._name}.json"
        descriptor = window_files.lock_patiently(armed, _LOCK_S)
        with contextlib.suppress(OSError):  # a full disk
            if descriptor is not None:
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(self.session.describe()).encode())
        self._tell_marks(window_files.SLEEP)
        self._thread.start()
        try:
            yield
        finally:
            self.join()
            with contextlib.suppress(OSError):
                armed.unlink()
            if descriptor is not None:
                os.close(descriptor)

    def join(self) -> None:
        """End the window that is open, if there is one: its program has ended."""
        self._ended.set()
        self._thread.join(LONGEST_S)

    def _watch(self) -> None:
        answered = max(window_files.list_requests(self._folder), default=0)
        while not self._ended.wait(_POLL_S):
            for number in window_files.list_requests(self._folder):
                if number > answered:
                    answered = number
                    file = window_files.request_file(self._folder, number)
                    self._answer(number, window_files.read(file))
            answered = max(answered, self._follow_schedule(answered))

    def _follow_schedule(self, answered: int) -> int:
        """Record the window that the schedule has for now. Returns its number, 0 for none."""
        schedule = window_schedule.read_schedule(self._folder)
        due = window_schedule.find_due(schedule, time.time()) if schedule else None
        if due is None or due[0] <= answered:
            return 0
        self._answer(due[0], {**schedule, "start": due[1]})
        with contextlib.suppress(OSError):
            reports = self.session.compile_reports(self._name)
            window_schedule.remove_old(self._output, self._name, schedule, reports)
        return due[0]

    def _answer(self, number: int, request: Mapping[str, Any]) -> None:
        if self._name not in request.get("names", ()):
            return
        facts: dict[str, Any] = {"state": "accepted"}
        try:
            self._write(number, facts)
            self._tell_marks(window_files.MARK)
            facts = self._record(number, request)
        except (OSError, KeyError, TypeError, ValueError) as error:
            facts = {"state": window_files.LOST, "why": f"{type(error).__name__}: {error}"}
        self._tell_sleep()
        if facts["state"] == window_files.LOST:
            say(f"{self._name}: window {number} is lost: {facts['why']}")
        with contextlib.suppress(OSError):
            self._write(number, facts)

    def _write(self, number: int, facts: Mapping[str, Any]) -> None:
        window_files.write(window_files.answer_file(self._folder, number, self._name), facts)

    def _record(self, number: int, request: Mapping[str, Any]) -> dict[str, Any]:
        """Record one window. Returns the answer."""
        name = f"{self._name}.{number}"
        report = self._output / f"{name}{self.session.ending}"
        start, seconds = float(request["start"]), float(request["seconds"])
        steps = int(request.get("steps", 0))
        if self._ended.wait(max(0.0, start - time.time())):
            return {"state": window_files.LOST, "why": "the program had ended"}
        if time.time() - start > _MOST_LATE_S and len(request["names"]) > 1:
            return {"state": window_files.LOST, "why": _LATE}
        if shutil.disk_usage(str(self._output)).free < _LEAST_ROOM:
            room = f"{self._output} has less than {_LEAST_ROOM >> 20} MB free"
            return {"state": window_files.LOST, "why": room}
        failure = self.session.start(str(self._output / name))
        if failure:
            return {"state": window_files.LOST, "why": failure}
        began, first = time.time(), self._read_steps()
        self._write(number, {"state": "recording", "began": began})
        note = self.await_end(seconds, steps)
        ended = time.time()
        with shelter.block_signals(True):  # of Slurm, which signals all processes of a step
            failure = self._stop(first)
        return {"began": began, "ended": ended, **self._finish(report, failure, note)}

    def _stop(self, first: Mapping[str, int]) -> str:
        """End the window while the program waits. Returns what nsys says of a failure, or ""."""
        if self.session.needs_idle_gpu:
            now = self._read_steps()
            self.await_idle({name for name, begun in now.items() if begun > first.get(name, 0)})
        if self._ended.is_set():
            return ""
        return self.session.stop(self._tell_sleep)

    def await_idle(self, stepping: Set[str]) -> None:
        """Have processes wait where their next step begins, with an idle GPU.

        Without the wait, windows of ten steps on an H100 held no kernel of the backward pass.
        """
        if stepping:
            self._tell_marks(window_files.WAIT)
        deadline = time.monotonic() + _IDLE_S
        waits = window_files.WAITS
        while not (
            window_files.keep_living(stepping)
            <= window_files.list_doing(self._folder, self._name, waits)
        ):
            if time.monotonic() > deadline or self._ended.wait(_STEP_POLL_S):
                return

    def _tell_marks(self, what: int) -> None:
        window_files.tell_marks(self._folder, self._name, what)

    def _tell_sleep(self) -> None:
        with contextlib.suppress(OSError):
            self._tell_marks(window_files.SLEEP)

    def await_end(self, seconds: float, steps: int = 0) -> str:
        """Wait for so many seconds, or until the window holds `steps` whole steps.

        Returns why it came early, or "".
        """
        folder = os.environ.get("TMPDIR") or "/tmp"
        first, made = self._read_steps(), 0
        poll_s = _STEP_POLL_S if steps else _POLL_S
        end = time.monotonic() + seconds  # the other clock may be set meanwhile
        while time.monotonic() < end:
            if self._ended.wait(min(poll_s, max(0.0, end - time.monotonic()))):
                return "the program ended in it"
            made = self.count_steps(first) if steps else 0
            if steps and made >= steps:
                return ""
            with contextlib.suppress(OSError):
                if shutil.disk_usage(folder).free < _LEAST_ROOM:
                    return f"{folder} has less than {_LEAST_ROOM >> 20} MB free"
        return f"{made} of {steps} steps were made in time" if steps else ""

    def _read_steps(self) -> dict[str, int]:
        return window_files.read_steps(self._folder, self._name)

    def count_steps(self, first: Mapping[str, int]) -> int:
        """Return the whole steps since `first`: the step that was open then is none.

        A worker that was started in the window, as torchrun does after a crash, makes them too.
        """
        now = self._read_steps().items()
        return max((begun - first.get(name, 0) - 1 for name, begun in now), default=0)

    def _finish(self, report: Path, failure: str, note: str) -> dict[str, Any]:
        """Give the report its name, and say what became of the window."""
        adopted = self.session.adopt(report)
        if adopted is not None:
            self.at_report()  # it imports the stream of a window whose importer was killed
            if adopted.exists() and adopted.stat().st_size:
                return {"state": window_files.DONE, "report": adopted.name, "note": note}
            adopted.unlink(missing_ok=True)
        return {"state": window_files.LOST, "why": failure or "there is no report of it"}
