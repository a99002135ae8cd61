"""A check of one input in a process of its own, with limits of time and memory."""

import json
import os
import resource
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

SECONDS, GIGABYTE = 30, 1 << 30
"""SECONDS of processor time, so that a loaded machine ends no check that is sound."""
PATIENCE = 20
"""So many times as long may a check take by the clock: it may wait for other programs."""
GROWTH = GIGABYTE
"""Bytes of address space that a check may take beside what the process has already."""


@dataclass(frozen=True)
class Outcome:
    """`label`: "same", "refused", or what went wrong, which begins with a capital letter."""

    label: str
    note: str = ""
    seconds: float = 0.0
    megabytes: int = 0
    """Processor time, and the largest memory that was resident, of the child that checked."""

    @property
    def is_defect(self) -> bool:
        return self.label[:1].isupper()


class Tally(Counter[str]):
    """How many outcomes had each label, and the largest use of processor and memory."""

    seconds, megabytes = 0.0, 0

    def add(self, outcome: Outcome) -> None:
        self[outcome.label] += 1
        self.seconds = max(self.seconds, outcome.seconds)
        self.megabytes = max(self.megabytes, outcome.megabytes)

    def __str__(self) -> str:
        return f"{dict(sorted(self.items()))}, at most {self.seconds:.1f} s, {self.megabytes} MB"


def check_in_child(check: Callable[[], Outcome], seconds: int = SECONDS) -> Outcome:
    """The check's outcome; TRACEBACK, MEMORY or DIED where it has none."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(check, writing, seconds)
    os.close(writing)
    # Until its end, and then wait4: a child with an answer longer than a pipe holds would wait for
    # us.
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status, used = os.wait4(child, 0)
    label, note = json.loads(answer) if answer else (f"DIED or hung: signal {status & 127}", "")
    return Outcome(label, note, used.ru_utime + used.ru_stime, used.ru_maxrss >> 10)


def _answer(check: Callable[[], Outcome], writing: int, seconds: int) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        _limit(seconds)
        outcome = _checked(check)
        os.write(writing, json.dumps([outcome.label, outcome.note[:4000]]).encode())
    finally:
        # A fork of pytest must not run its exit functions, nor write what its buffers hold.
        os._exit(0)


def _limit(seconds: int) -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - without another import in the child
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, size + GROWTH))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    signal.alarm(seconds * PATIENCE)
    warnings.simplefilter("error")


def _checked(check: Callable[[], Outcome]) -> Outcome:
    try:
        return check()
    except MemoryError:
        return Outcome("MEMORY", traceback.format_exc()[-1500:])
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1].name
        kind = type(error).__name__
        return Outcome(f"TRACEBACK {kind} at {place}", traceback.format_exc()[-1500:])
