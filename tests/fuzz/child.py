"""A check of one input in a process of its own, with limits of time and memory."""

import json
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass

SECONDS, GIGABYTE = 30, 1 << 30
GROWTH = GIGABYTE
"""Bytes of address space that a check may take beside what the process has already."""


@dataclass(frozen=True)
class Outcome:
    """`label`: "same", "refused", or what went wrong, which begins with a capital letter."""

    label: str
    note: str = ""

    @property
    def is_defect(self) -> bool:
        return self.label[:1].isupper()


def check_in_child(check: Callable[[], Outcome], seconds: int = SECONDS) -> Outcome:
    """The check's outcome; TRACEBACK, MEMORY or DIED where it has none."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _answer(check, writing, seconds)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        return Outcome(f"DIED or hung: signal {status & 127}")
    return Outcome(*json.loads(answer))


def _answer(check: Callable[[], Outcome], writing: int, seconds: int) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        _limit(seconds)
        outcome = _checked(check)
        os.write(writing, json.dumps([outcome.label, outcome.note[:4000]]).encode())
    finally:
        os._exit(0)


def _limit(seconds: int) -> None:
    with open("/proc/self/statm") as file:  # noqa: PTH123 - without another import in the child
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + GROWTH, size + GROWTH))
    signal.alarm(seconds)
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
