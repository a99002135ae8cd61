"""End the recording by default, once it holds enough steps. Python 3.8, stdlib only.

All ranks end it where the same step begins. The program waits there until nsys has what it recorded
so far, which takes about a second, and then goes on without it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.step_counter import StepCounter
from gpu_profile_marks.times_file import TimesFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_profile_marks.steps import Steps
    from gpu_profile_marks.torch_trace import TorchTrace

STEPS = 60
"""Steps of a recording. 20 are for the start: compilers, autotuning, the files of the first epoch.
40 are steady: what happens in each tenth step is there four times, and the 95th percentile has two
steps above it."""
FEWER_STEPS, MOST_S = 20, 300.0
"""Where 60 steps take over five minutes, which nsys advises as the most, 20 are recorded.

https://docs.nvidia.com/nsight-systems/UserGuide/index.html
"""
STEADY_S, START_STEPS = 5.0, 20
"""The steady steps take 5 s at least: a function with 1 % of the time then has 25 of the samples
that `--preset full` takes. Of short steps more are recorded: 60, 120, 240, …"""
DECIDED_AT = 15
"""The step at whose beginning the last one is chosen, by the ten before it. The rank that is first
there chooses for all: a file beside the reports holds its choice."""
CHOSEN_AGAIN_AT = 55
"""The step at whose beginning fewer than 120 are chosen, by the mean of 35. A program that compiles
in each tenth step takes 11 ms in most steps, and 110 in the mean: 480 steps took 53 s."""
_MOST_DOUBLINGS = 16
WHOLE, MANUAL = "whole", "manual"
_WAIT_S = 60.0
_CHOICE, _SECOND_CHOICE = "last-step.json", "last-step-again.json"
AT_END: list[Callable[[], None]] = []
"""Called after the end: nobody records what they would mark, and it would slow the control: marks
of 97 modules are 1.3 ms of a step."""


class Ending:
    """The end of a recording that began with the program.

    `file` is that of the steps' times; `address` is the socket on which profile.py waits for the
    end, or "" for none: then all is recorded. `trace` records in place of nsys; it begins with the
    first step. An address of "whole" records all with it, one of "manual" what record_windows.py
    asks for.
    """

    def __init__(
        self,
        torch: Any,  # noqa: ANN401 - torch
        file: str,
        address: str,
        trace: TorchTrace | None = None,
    ) -> None:
        self._torch = torch
        self._trace = trace
        self._is_whole = address == WHOLE
        self.is_manual = address == MANUAL
        self._address = "" if address in (WHOLE, MANUAL) else address
        self._choice = Path(file).with_name(_CHOICE)
        self._file = TimesFile(file)
        self._counter = StepCounter(file)
        self._line: socket.socket | None = None
        self._control: int | None = None
        self.end = 0
        self.recorded: tuple[int, int] | None = None

    def turn(self, number: int, steps: Steps) -> bool:
        """End the recording where step `number` begins, if it is time. Returns whether it did."""
        self._counter.show(number + 1)
        if self._counter.is_to_wait():
            self._synchronize()
            self._counter.wait()
            return True
        if self.is_manual and self._trace is not None:
            return self._follow_request(self._trace)
        if self._line is not None:
            self._look_for_report(self._line, number)
        if self._trace is not None and self._follow(self._trace, number):
            return True
        if self._is_whole or self.recorded is not None or not (self._address or self._trace):
            return False
        self._choose_end(number, steps.times_s)
        if not self.end or number < self.end:
            return False
        self._end_recording(number, steps.unit)
        return True

    def forget_end(self) -> bool:
        """Choose the end anew, as other steps begin. Returns whether nothing has ended yet."""
        if self.recorded is not None:
            return False
        self.end = 0
        for choice in (self._choice, self._choice.with_name(_SECOND_CHOICE)):
            with contextlib.suppress(OSError):
                choice.unlink()
        return True

    def _choose_end(self, number: int, times_s: list[float]) -> None:
        if not self.end and number >= DECIDED_AT:
            self.end = choose_for_all(self._choice, times_s[DECIDED_AT - 10 : DECIDED_AT])
        if number == CHOSEN_AGAIN_AT and self.end > STEPS:
            mean_s = statistics.fmean(times_s[START_STEPS:CHOSEN_AGAIN_AT])
            again = self._choice.with_name(_SECOND_CHOICE)
            self.end = min(self.end, max(STEPS, choose_for_all(again, [mean_s])))

    def _follow(self, trace: TorchTrace, number: int) -> bool:
        """Begin the trace with step 0. Returns whether it has ended before, in the last step."""
        if not number:
            trace.start()
        if not trace.is_over or self.recorded is not None:
            return False
        self.recorded, self._control = (0, max(0, number - 1)), number + 1
        return True

    def _follow_request(self, trace: TorchTrace) -> bool:
        """Begin or end the trace of a window where a step begins. Returns whether it did.

        A trace that had to end before, as the program started torch.profiler, begins with the next
        window again.
        """
        if self._counter.is_to_trace() == trace.has_begun:
            return False
        if trace.has_begun:
            trace.stop()
            trace.renew()
        else:
            trace.start()
        self._counter.tell_tracing(trace.has_begun)
        return True

    def _end_recording(self, number: int, unit: str) -> None:
        """Have profile.py end the recording. It goes on where profile.py is gone."""
        if self._trace is not None:
            self._trace.stop()
            self.recorded, self._control = (0, number), number + 1
            call_at_end()
            return
        address, self._address = self._address, ""
        # What the last recorded step launched has to end inside the recording.
        self._synchronize()
        line = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            # `nsys stop` takes about a second. One that hangs must not hold the program for good.
            line.settimeout(_WAIT_S)
            _connect(line, address)
            line.sendall(b"end %s %d\n" % (unit.encode(), number - 1))
            if line.recv(1) == b"s":  # stopped
                self.recorded = (0, number)
                call_at_end()
                line.setblocking(False)
                self._line = line
                return
        line.close()

    def _synchronize(self) -> None:
        """Let the GPU end what was launched: nsys gets no kernel that runs."""
        if self._torch.cuda.is_initialized():
            self._torch.cuda.synchronize()

    def _look_for_report(self, line: socket.socket, number: int) -> None:
        """Note the first step that begins after the end of nsys' work on the report."""
        try:
            if line.recv(1) == b"w":  # written
                self._control = number
        except BlockingIOError:
            return
        except OSError:  # profile.py is gone
            pass
        line.close()
        self._line = None

    def stop(self, _number: int) -> None:
        """End a trace with the program, as nsys does by itself."""
        if self._trace is not None:
            self._trace.stop()

    def save(self, steps: Steps, *, now: bool = False) -> None:
        recorded = self.recorded or (0, steps.made())
        self._file.save(steps, recorded, self._control, now=now)


def call_at_end() -> None:
    for call in AT_END:
        call()


def _connect(line: socket.socket, address: str) -> None:
    """Connect to a socket whose path may be longer than the 107 bytes of unix(7)."""
    folder, name = os.path.split(address)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        line.connect(f"/proc/self/fd/{handle}/{name}")
    finally:
        os.close(handle)


def choose_end(times_s: list[float]) -> int:
    """Return how many steps to record, by the seconds of some steps after the first."""
    step_s = statistics.median(times_s)
    if STEPS * step_s > MOST_S:
        return FEWER_STEPS
    counts = [STEPS << doublings for doublings in range(_MOST_DOUBLINGS)]
    return next((n for n in counts if (n - START_STEPS) * step_s >= STEADY_S), counts[-1])


def choose_for_all(path: Path, times_s: list[float]) -> int:
    """Return the number of steps in the file; without a file, choose it and write it.

    A link appears with its content, and only once: ranks that come together read one number.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if not path.exists():
            draft.write_text(json.dumps({"steps": choose_end(times_s)}), encoding="utf-8")
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        return int(json.loads(path.read_text(encoding="utf-8"))["steps"])
    except (OSError, ValueError, TypeError, KeyError):  # a file system without links
        return choose_end(times_s)
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
