"""The text of a thread's Python stack. Python 3.8, stdlib only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpu_profile_pauses.pause_marks import BETWEEN, STACK, format_frame
from gpu_profile_pauses.places import is_library, short_place

if TYPE_CHECKING:
    from types import CodeType, FrameType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120
_IMPORTS = "<frozen importlib"
_MOST_FRAMES = 64
_MOST_STACKS = 20_000  # 10 MB
_MOST_TEXTS = 4096
"""Further stacks have their function alone: nsys keeps each registered string for ever."""


class _Function:
    """A code object: its name and file. It holds the code, so that no other gets its identity."""

    __slots__ = ("code", "is_hidden", "is_library", "name", "place")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.name = code.co_name
        self.place = short_place(code.co_filename)
        self.is_library = is_library(self.place)
        self.is_hidden = code.co_filename.startswith((_OURS, _IMPORTS))


class StackTexts:
    """Texts of stacks: `stack | FUNCTION "FILE" LINE | …`, the outermost frame first.

    Two frames have lines: the innermost one, and the innermost one that is no library's. Frames of
    ours and of an import are left out.
    """

    def __init__(self) -> None:
        self._functions: dict[int, _Function] = {}
        self._texts: dict[tuple[int, ...], str] = {}
        self._distinct: set[str] = set()

    def text(self, frame: FrameType) -> str:
        """Return the text of a stack. The frames are not kept."""
        functions = self._functions
        key: list[int] = []
        first = user = None
        inner: FrameType | None = frame
        while inner is not None and len(key) < _MOST_FRAMES:
            identity = id(inner.f_code)
            function = functions.get(identity)
            if function is None:
                function = functions[identity] = _Function(inner.f_code)
            if not function.is_hidden:
                # Places are negative numbers, as identities are positive. The first one is -1.
                if first is None:
                    first = inner
                    key.append(-2 - inner.f_lasti)
                if user is None and not function.is_library:
                    user = inner
                    key.append(-2 - inner.f_lasti)
                key.append(identity)
            inner = inner.f_back
        stack = tuple(key)
        text = self._texts.get(stack)
        if text is None and first is not None:
            text = self._add(stack, first, user or first)
        return text or STACK

    def _add(self, stack: tuple[int, ...], first: FrameType, user: FrameType) -> str:
        if len(self._texts) >= _MOST_STACKS:
            self._texts.clear()
        text = self._make(stack, first, user)
        if text not in self._distinct:
            if len(self._distinct) >= _MOST_TEXTS:
                function = self._functions[id(user.f_code)]
                text = BETWEEN.join((STACK, format_frame(function.name, function.place, 0)))
            self._distinct.add(text)
        self._texts[stack] = text
        return text

    def _make(self, stack: tuple[int, ...], first: FrameType, user: FrameType) -> str:
        shown = [self._functions[identity] for identity in stack if identity >= 0]
        lines = [0] * len(shown)
        # In reverse: a recursive function has its line at the innermost place.
        for frame in (user, first):
            code = frame.f_code
            place = next(place for place, known in enumerate(shown) if known.code is code)
            lines[place] = frame.f_lineno or 0
        pairs = zip(shown, lines)  # noqa: B905 - `strict` is of Python 3.10; jobs may have 3.8
        words = [format_frame(function.name, function.place, line) for function, line in pairs]
        return BETWEEN.join((STACK, *reversed(words)))
