"""A thread that reads the Python stacks of the others. Python 3.8, stdlib only.

It holds the interpreter's lock while it reads, and so no other thread's frames change. It keeps no
frame: a frame holds the program's tensors. Function arguments and variables are never read.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from gpu_profile_marks.ranges import SWITCH

from gpu_profile_pauses.stacks import StackTexts, read_stack
from gpu_profile_pauses.unpatched import (
    MAIN_THREAD,
    get_ident,
    get_native_id,
    perf_counter_ns,
    sleep,
    start_new_thread,
    thread_time_ns,
)
from gpu_profile_pauses.untraced import make_sleep, name_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from gpu_profile_pauses.pause_marks import PauseMarks

    _Stack = tuple[list[CodeType], list[int]]
    """What `read_stack` returns."""
    _Look = tuple[int, _Stack | None]
    """The kernel's number of a thread, and its stack where it has moved since the look before."""

PERIOD_NS = 14_000_000
LEAST_PART = 200
"""The thread sleeps so many times as long as it reads, 0.5 % of the time, and 0.1 s at most."""
_SAME_NS = 100_000_000  # a thread that does not move is told of ten times a second
_LOOKS_AT_ONCE = 8
"""Looks whose marks are made together: see `stacks.read_stack`."""
_MOST_THREADS = 8
_MOST_SEEN = 1000
_END_S = 0.05


class _Seen:
    """A thread as it was last seen.

    `looked`: when. `told`: until when marks tell of it (ns of perf_counter_ns).
    """

    __slots__ = ("looked", "text", "told")

    def __init__(self, now: int) -> None:
        self.text = ""
        self.looked = self.told = now - PERIOD_NS


class Sampler:
    """Marks where each Python thread is, 50 to 70 times a second."""

    def __init__(self, marks: PauseMarks) -> None:
        self._marks = marks
        self._texts = StackTexts()
        self._seen: dict[int, _Seen] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._looks: list[tuple[int, list[_Look]]] = []
        self._main = (MAIN_THREAD[0], os.getpid())
        self._turn = 0
        self._running: object | None = None
        self._ended = True
        self._number = 0
        self._forks = 0
        self._forking: dict[int, tuple[str, int]] = {}
        self._goes_on = False

    def start(self) -> None:
        # Nobody looked between a fork and now: no mark may tell of that time.
        self._forget()
        self._running = running = object()
        self._ended = False
        start_new_thread(self._run, (running,))

    def stop(self) -> None:
        """End the thread for good: one that lives on after Python's end can crash."""
        self._goes_on = False
        self._end_thread()

    def _end_thread(self) -> None:
        self._running = None
        _wait_until(lambda: self._ended)

    def before_fork(self) -> None:
        """End the thread, and wait until the kernel has none of its number."""
        self._goes_on = self._goes_on or self._running is not None
        self._forks += 1
        if self._goes_on:
            self._end_thread()
            _wait_until(lambda: not os.path.exists(f"/proc/self/task/{self._number}"))  # noqa: PTH110
            if SWITCH.is_alive() and SWITCH.is_wanted():
                text = self._texts.text(*read_stack(sys._getframe()))
                self._forking[get_ident()] = text, perf_counter_ns()

    def after_fork(self) -> None:
        """Mark the fork, in which nobody else looks. Start the thread again in the process that
        forked, at its next garbage collection: from 3.13 on os.fork counts threads after this
        hook.
        """
        self._forks -= 1
        text, since = self._forking.pop(get_ident(), ("", 0))
        if text:
            self._marks.write(text, perf_counter_ns() - since)
        if self._goes_on and not self._forks and self._start_again not in gc.callbacks:
            gc.callbacks.append(self._start_again)

    def _start_again(self, phase: str, _facts: object) -> None:
        if phase == "stop" and not self._forks:
            gc.callbacks.remove(self._start_again)
            if self._goes_on and self._running is None and SWITCH.is_alive():
                self.start()

    def _run(self, running: object) -> None:
        try:
            self._number = get_native_id()
            # Signals are for the program's threads: one that waits is interrupted by them.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            name_thread("gpu-profile")
            self._sample(make_sleep(), running)
            self._tell()
        except Exception as error:
            SWITCH.fail(error)
        finally:
            self._ended = True

    def _sample(self, wait: Callable[[int], object], running: object) -> None:
        state, ours, pause = 1, get_ident(), PERIOD_NS
        began = thread_time_ns()
        while True:
            # Half to one and a half periods: a step of one period would be seen at one place only.
            # (The example of rand() in the C standard. `random` would change the program's own
            # numbers.)
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            wait(pause // 2 + pause * state // 0x7FFFFFFF)
            if self._running is not running or not SWITCH.is_alive():
                return
            if not SWITCH.is_wanted():
                self._tell()
                self._forget()
                pause = _SAME_NS
                continue
            now = perf_counter_ns()
            self._look(ours, now)
            looks = len(self._looks)
            if looks >= _LOOKS_AT_ONCE or now - self._looks[0][0] >= _SAME_NS:
                self._tell()
                # CPU time: one that lost its core in the middle of a look would sleep for seconds.
                spent, began = thread_time_ns() - began, thread_time_ns()
                pause = min(max(PERIOD_NS, LEAST_PART * spent // looks), _SAME_NS)

    def _look(self, ours: int, now: int) -> None:
        """Note where each thread is; of many threads, of eight at a time."""
        frames = sys._current_frames()
        if len(frames) > _MOST_THREADS + 1:
            self._choose(frames)
        main, number = self._main
        seen = []
        for ident, frame in frames.items():
            thread = number if ident == main else self._find_thread(ident)
            if thread and ident != ours:
                outer = frame.f_back
                at_outer = outer.f_lasti if outer is not None else 0
                place = (id(frame), frame.f_lasti, id(outer), at_outer)
                has_moved = place != self._places.get(thread)
                self._places[thread] = place
                seen.append((thread, read_stack(frame) if has_moved else None))
        self._looks.append((now, seen))

    def _choose(self, frames: dict[int, FrameType]) -> None:
        """Leave eight threads; the next ones at the next look."""
        idents = [ident for ident in frames if self._find_thread(ident)]
        self._turn += _MOST_THREADS
        place = self._turn % len(idents) if idents else 0
        for ident in {*frames}.difference((idents[place:] + idents[:place])[:_MOST_THREADS]):
            del frames[ident]

    def _find_thread(self, ident: int) -> int:
        """Return the kernel's number of a thread, 0 for one that Python's threading does not know.

        gevent numbers its greenlets in place of the main thread.
        """
        if ident == self._main[0]:
            return self._main[1]
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        return getattr(thread, "_native_id", None) or 0

    def _tell(self) -> None:
        """Make the marks of the looks since the last call."""
        looks, self._looks = self._looks, []
        for now, threads in looks:
            for thread, stack in threads:
                self._mark_time(thread, stack, now)
        if len(self._places) > _MOST_SEEN:
            self._forget()

    def _forget(self) -> None:
        self._seen.clear()
        self._places.clear()

    def _mark_time(self, thread: int, stack: _Stack | None, now: int) -> None:
        """Mark the time since the last mark of this thread, at its end.

        Where the thread held the interpreter's lock, in a collection or a regular expression, this
        thread waited for it: what the other did then is what it is at now.
        """
        seen = self._seen.get(thread)
        if seen is None:
            seen = self._seen[thread] = _Seen(now)
        if stack is None and now - seen.told < _SAME_NS:
            seen.looked = now
            return
        if stack is not None:
            if seen.looked > seen.told:
                self._write(seen, seen.looked, thread)
            seen.told = seen.looked
            seen.text = self._texts.text(*stack)
        self._write(seen, now, thread)
        seen.looked = now

    def _write(self, seen: _Seen, until: int, thread: int) -> None:
        late = max(0, perf_counter_ns() - until)
        self._marks.write(seen.text, until - seen.told, thread, late)
        seen.told = until


def _wait_until(is_so: Callable[[], bool]) -> None:
    """Wait 50 ms at most."""
    waited = 0.0
    while not is_so() and waited < _END_S:
        sleep(0.001)
        waited += 0.001
