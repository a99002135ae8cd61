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
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ranges import SWITCH

from gpu_profile_pauses.stacks import MOST_FRAMES, StackTexts, read_stack, split_notes
from gpu_profile_pauses.unpatched import (
    MAIN_THREAD,
    get_ident,
    get_native_id,
    perf_counter_ns,
    sleep,
    start_new_thread,
    thread_time_ns,
)
from gpu_profile_pauses.untraced import make_wait, name_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gpu_profile_pauses.pause_marks import PauseMarks
    from gpu_profile_pauses.stacks import Place

    _Look = tuple[int, int, list[Place] | None]
    """When, the kernel's number of a thread, and its stack; None where it has not moved."""

PERIOD_NS = 19_500_000
LEAST_PART = 200
_WAKE_NS = 70_000
"""The thread sleeps 200 times as long as others wait for it, 0.1 s at most. They wait for its CPU
time less about 70 us a look, in which it wakes up while they run (measured: docs/annotate.md)."""
_SAME_NS = 100_000_000  # a thread that does not move is told of ten times a second
LOOKS_AT_ONCE = 16
"""Looks whose marks are made together: see `stacks.read_stack`."""
_LATE_NS = 300_000_000  # how late a mark is made at most, where looks are rare
_MOST_THREADS = 8
_MOST_SEEN = 1000
_END_S = 0.05


class _Seen:
    """A thread as it was last seen.

    `looked`: when. `told`: until when marks tell of it (ns of perf_counter_ns).
    """

    __slots__ = ("looked", "stack", "text", "told")

    def __init__(self, now: int) -> None:
        self.stack: list[Place] | None = None
        self.text = ""
        self.looked = self.told = now - PERIOD_NS


class Sampler:
    """Marks where each Python thread is, 51 times a second where that costs 0.5 % at most."""

    def __init__(self, marks: PauseMarks) -> None:
        self._marks = marks
        self._texts = StackTexts()
        self._seen: dict[int, _Seen] = {}
        self._places: dict[int, tuple[int, ...]] = {}
        self._notes: list[Any] = []
        self._looks: list[_Look] = []
        self._random = 1
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
                text = self._texts.text(read_stack(sys._getframe()))
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
            self._sample(make_wait(), running)
            self._tell()
        except Exception as error:
            SWITCH.fail(error)
        finally:
            self._ended = True

    def _sample(self, wait: Callable[[float], object], running: object) -> None:
        pause = PERIOD_NS
        while SWITCH.is_alive():
            if SWITCH.is_wanted():
                began, spent = perf_counter_ns(), thread_time_ns()
                looks = self._look_often(wait, self._choose_pauses(pause), running)
                self._tell()
                # CPU time: one that lost its core in a look would sleep for seconds.
                spent = (thread_time_ns() - spent) // looks - _WAKE_NS
                late = (perf_counter_ns() - began) // looks - pause
                pause = max(PERIOD_NS - late, PERIOD_NS // 2, LEAST_PART * spent)
                pause = min(pause, _SAME_NS)
            else:
                self._forget()
                wait(_SAME_NS / 1e9)
            if self._running is not running:
                return

    def _look_often(
        self, wait: Callable[[float], object], pauses: list[float], running: object
    ) -> int:
        """Note after each pause where the main thread is, and the others. Returns how often.

        One function: each further one takes 2 to 10 us longer a look. See `stacks.read_stack`.
        """
        main, ours, limit = self._main[0], get_ident(), range(MOST_FRAMES)
        note, list_frames, read_time = self._notes.append, sys._current_frames, perf_counter_ns
        looks, end = 0, read_time() + _LATE_NS
        for seconds in pauses:
            wait(seconds)
            if self._running is not running:
                break
            frames = list_frames()
            frame = frames.pop(main, None)
            for _ in limit:
                if frame is None:
                    break
                note(frame.f_code)
                note(frame.f_lasti)
                frame = frame.f_back
            now = read_time()
            note(now)
            if len(frames) > 1:
                del frames[ours]
                self._look_at_others(frames, now)
            # No frame is kept while this thread waits: it holds the program's tensors.
            del frames, frame
            looks += 1
            if now > end:
                break
        return max(1, looks)

    def _choose_pauses(self, mean_ns: int) -> list[float]:
        """Return seconds, half to one and a half of the mean.

        A step of one length would be seen at one place only. (The example of rand() in the C
        standard. `random` would change the program's own numbers.)
        """
        pauses = []
        for _ in range(LOOKS_AT_ONCE):
            self._random = (self._random * 1103515245 + 12345) & 0x7FFFFFFF
            pauses.append(mean_ns * (0.5 + self._random / 0x7FFFFFFF) / 1e9)
        return pauses

    def _look_at_others(self, frames: dict[int, FrameType], now: int) -> None:
        """Note where the other threads are; of many, of eight at a time."""
        if len(frames) > _MOST_THREADS:
            self._choose(frames)
        for ident, frame in frames.items():
            thread = self._find_thread(ident)
            if thread:
                outer = frame.f_back
                at_outer = outer.f_lasti if outer is not None else 0
                place = (id(frame), frame.f_lasti, id(outer), at_outer)
                has_moved = place != self._places.get(thread)
                self._places[thread] = place
                self._looks.append((now, thread, read_stack(frame) if has_moved else None))

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
        for now, main_stack in split_notes(self._notes):
            if main_stack:
                self._mark_time(self._main[1], main_stack, now)
        for now, thread, moved_stack in self._looks:
            self._mark_time(thread, moved_stack, now)
        self._notes, self._looks = [], []
        if len(self._places) > _MOST_SEEN:
            self._forget()

    def _forget(self) -> None:
        self._seen.clear()
        self._places.clear()

    def _mark_time(self, thread: int, stack: list[Place] | None, now: int) -> None:
        """Mark the time since the last mark of this thread, at its end.

        Where the thread held the interpreter's lock, in a collection or a regular expression, this
        thread waited for it: what the other did then is what it is at now.
        """
        seen = self._seen.get(thread)
        if seen is None:
            seen = self._seen[thread] = _Seen(now)
        if stack is None or stack == seen.stack:
            if now - seen.told < _SAME_NS:
                seen.looked = now
                return
        else:
            if seen.looked > seen.told:
                self._write(seen, seen.looked, thread)
            seen.told = seen.looked
            seen.stack = stack
            seen.text = self._texts.text(stack)
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
