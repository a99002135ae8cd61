"""The text of a thread's Python stack. Python 3.8, stdlib only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from gpu_profile_pauses.pause_marks import BETWEEN, STACK, format_frame
from gpu_profile_pauses.places import is_library, short_place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType, FrameType

    Place = CodeType | int

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120
_IMPORTS = "<frozen importlib"
MOST_FRAMES = 64
_MOST_STACKS = 20_000  # 10 MB
_MOST_TEXTS = 4096
"""Further stacks have their function alone: nsys keeps each registered string for ever."""


def read_stack(frame: FrameType) -> list[Place]:
    """Return code and `f_lasti` of each frame, by turns, the innermost first. No frame is kept.

    All that a look does for each frame: what is made of it waits until several looks are told at
    once. A step of the program between two looks has driven our code out of the core's caches, and
    each further function that runs then takes 2 to 10 us in place of 0.3.
    """
    stack: list[Place] = []
    inner: FrameType | None = frame
    while inner is not None and len(stack) < 2 * MOST_FRAMES:
        stack += (inner.f_code, inner.f_lasti)
        inner = inner.f_back
    return stack


def split_notes(notes: list[Any]) -> Iterable[tuple[int, list[Place]]]:
    """Yield the time of each look and what it read, as `read_stack` returns it.

    `notes` has the looks one after the other, each with its time at its end.
    """
    first = place = 0
    while place < len(notes):
        if isinstance(notes[place], int):
            yield notes[place], notes[first:place]
            first = place + 1
            place = first
        else:
            place += 2


class _Function:
    """A code object: its name and file. It holds the code, so that no other gets its identity."""

    __slots__ = ("code", "is_hidden", "is_library", "name", "place", "words")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.name = code.co_name
        self.place = short_place(code.co_filename)
        self.is_library = is_library(self.place)
        self.is_hidden = code.co_filename.startswith((_OURS, _IMPORTS))
        self.words = self.format_at(0)

    def format_at(self, line: int) -> str:
        return format_frame(self.name, self.place, line)


class _Stack:
    """The functions of a stack that are shown, the innermost first.

    `first` and `user` are the innermost frame, and the innermost one that is no library's: each its
    number among all frames and among those shown. The stack has at least one that is shown.
    """

    __slots__ = ("first", "functions", "texts", "user")

    def __init__(self, functions: list[_Function]) -> None:
        shown = [number for number, function in enumerate(functions) if not function.is_hidden]
        users = (pair for pair in enumerate(shown) if not functions[pair[1]].is_library)
        self.functions = [functions[number] for number in shown]
        self.first = (0, shown[0])
        self.user = next(users, self.first)
        self.texts: dict[tuple[int, int], str] = {}

    def make_text(self, first: int, user: int) -> str:
        """Return the text where these two frames are at these places of their code."""
        words = [function.words for function in self.functions]
        for (number, _), place in ((self.user, user), (self.first, first)):
            function = self.functions[number]
            words[number] = function.format_at(_find_line(function.code, place))
        return BETWEEN.join((STACK, *reversed(words)))


class StackTexts:
    """Texts of stacks: `stack | FUNCTION "FILE" LINE | …`, the outermost frame first.

    Two frames have lines: the innermost one, and the innermost one that is no library's. Frames of
    ours and of an import are left out.
    """

    def __init__(self) -> None:
        self._functions: dict[int, _Function] = {}
        self._stacks: dict[tuple[int, ...], _Stack | None] = {}
        self._count = 0
        self._distinct: set[str] = set()

    def text(self, code_places: list[Any]) -> str:
        """Return the text of what `read_stack` gave."""
        codes, places = code_places[::2], code_places[1::2]
        key = tuple(map(id, codes))
        if key not in self._stacks:
            self._stacks[key] = self._make_stack(codes)
        stack = self._stacks[key]
        if stack is None:
            return STACK
        pair = places[stack.first[1]], places[stack.user[1]]
        return stack.texts.get(pair) or self._add(stack, pair)

    def _make_stack(self, codes: list[CodeType]) -> _Stack | None:
        functions = []
        for code in codes:
            function = self._functions.get(id(code))
            if function is None:
                function = self._functions[id(code)] = _Function(code)
            functions.append(function)
        return None if all(function.is_hidden for function in functions) else _Stack(functions)

    def _add(self, stack: _Stack, pair: tuple[int, int]) -> str:
        if self._count >= _MOST_STACKS:
            self._stacks.clear()
            self._count = 0
        self._count += 1
        text = stack.make_text(*pair)
        if text not in self._distinct:
            if len(self._distinct) >= _MOST_TEXTS:
                text = BETWEEN.join((STACK, stack.functions[stack.user[0]].words))
            self._distinct.add(text)
        stack.texts[pair] = text
        return text


def _find_line(code: CodeType, place: int) -> int:
    """Return what `f_lineno` of a frame at this place is, without the frame."""
    if place < 0:  # before the first instruction, in a Python before 3.11
        return code.co_firstlineno
    line_there = code.co_firstlineno
    for start, line in _list_lines(code):
        if start > place:
            break
        line_there = line
    return line_there


def _list_lines(code: CodeType) -> Iterable[tuple[int, int]]:
    """Yield the first byte and the line of each piece of a code.

    https://docs.python.org/3/reference/datamodel.html#codeobject.co_lines
    """
    if hasattr(code, "co_lines"):  # from 3.10 on
        for start, _, line in code.co_lines():
            yield start, line or 0
        return
    start, line = 0, code.co_firstlineno
    for bytes_on, lines_on in zip(code.co_lnotab[::2], code.co_lnotab[1::2]):  # noqa: B905 - 3.10
        start += bytes_on
        line += lines_on - 256 * (lines_on > 127)
        yield start, line
