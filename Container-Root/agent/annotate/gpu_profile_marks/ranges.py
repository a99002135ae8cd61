"""The open ranges of each thread, and the switch that ends all marking. Python 3.8, stdlib only."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.failure import print_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_profile_marks.nvtx import Attributes


def _always() -> bool:
    return True


class Switch:
    """Whether marks are made. An exception in our code turns it off, with one line.

    In a job that is armed marks are made while `is_wanted` says so. Otherwise `on` is False, and
    `asleep` True once a step has ended: steps are counted, and nothing is marked.
    """

    def __init__(self) -> None:
        self.on = False
        self.asleep = False
        self.is_wanted: Callable[[], bool] = _always

    def is_alive(self) -> bool:
        return self.on or self.asleep

    def turn_off(self) -> None:
        self.on = self.asleep = False

    def set_asleep(self, asleep: bool) -> None:
        self.on, self.asleep = not asleep, asleep

    def fail(self, error: BaseException) -> None:
        if self.is_alive():
            self.turn_off()
            print_failure(error)

    def guard(self, call: Callable[..., Any], *args: Any) -> Any:  # noqa: ANN401 - any result
        """Return what the call returns; an exception in it turns the marks off, and gives None."""
        try:
            return call(*args)
        except Exception as error:
            self.fail(error)
            return None


SWITCH = Switch()


class Mark:
    """The name of a range, and the address of what NVTX gets for it; 0 without NVTX."""

    __slots__ = ("address", "attributes", "message")

    def __init__(self, message: str, attributes: Attributes | None) -> None:
        self.message = message
        self.attributes = attributes
        self.address = ctypes.addressof(attributes) if attributes is not None else 0


class Ranges(threading.local):
    """The open ranges of this thread, the innermost last: pairs of key and mark.

    A key finds a range again: NVTX pops the innermost range only, and a range that an exception
    left open must not stay open.
    """

    domain: Any = None
    """An nvtx.Domain, or torch_trace.Annotations, which stands for one."""

    def __init__(self) -> None:
        self.open: list[tuple[object, Mark]] = []

    def push(self, key: object, mark: Mark) -> None:
        self.open.append((key, mark))
        domain = self.domain
        if domain is not None:
            domain.push(mark.address)

    def pop(self, key: object) -> bool:
        """End the innermost range of this key and all ranges inside it.

        Returns False if there is none.
        """
        ranges = self.open
        # Nearly always it is the innermost one.
        if ranges and ranges[-1][0] is key:
            ranges.pop()
            domain = self.domain
            if domain is not None:
                domain.pop()
            return True
        for place in range(len(ranges) - 2, -1, -1):
            if ranges[place][0] is key:
                self.cut(place)
                return True
        return False

    def cut(self, length: int) -> None:
        """End ranges until `length` of them are open."""
        while len(self.open) > length:
            self.open.pop()
            if self.domain is not None:
                self.domain.pop()


RANGES = Ranges()


def make_mark(message: str) -> Mark:
    """Return the mark of a message. A message's string is registered with NVTX once."""
    mark = _MARKS.get(message)
    if mark is None:
        domain = Ranges.domain
        mark = Mark(message, domain.make(message) if domain is not None else None)
        _MARKS[message] = mark
    return mark


_MARKS: dict[str, Mark] = {}
