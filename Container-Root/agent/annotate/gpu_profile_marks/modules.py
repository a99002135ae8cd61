"""Hooks around the forward of every torch.nn.Module. Python 3.8, stdlib only.

While torch.compile traces, `_compiling()` is a constant for it, and the hooks are empty: they add
no graph break and no recompilation.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.names import Names
from gpu_profile_marks.ranges import RANGES, SWITCH, Mark, make_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_profile_marks.backward import Backward

_FORWARD = object()


class _Thread(threading.local):
    """The outermost module whose forward runs in this thread, and how often it runs in itself."""

    outermost: Any = None
    depth = 0


_THREAD = _Thread()


def _never() -> bool:
    return False


# Module globals, not attributes: torch.compile reads them while it traces the hooks.
_compiling: Callable[[], bool] = _never
_marks: ModuleMarks | None = None


class ModuleMarks:
    """The marks of forwards. `starts` is called before each forward of an outermost module."""

    def __init__(self, starts: Callable[[], None], *, every: bool) -> None:
        self.backward: Backward | None = None
        self._starts = starts
        self._every = every
        self._names = Names()
        self._phase = make_mark("forward")
        self._forwards: dict[str, Mark] = {}

    def enter(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        thread = _THREAD
        if thread.outermost is None:
            thread.outermost = module
            self._begin(module)
        elif module is thread.outermost:
            thread.depth += 1
        if self._every:
            text = self._names.text(module) or self._names.name(module)
            if self.backward is not None:
                self.backward.enter(module, text)
            RANGES.push(module, self._mark(text))

    def _begin(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        self._starts()
        if self._every and self._names.text(module) is None:
            self._names.name_tree(module)
        RANGES.push(_FORWARD, self._phase)

    def _mark(self, text: str) -> Mark:
        mark = self._forwards.get(text)
        if mark is None:
            mark = self._forwards[text] = make_mark(f"forward {text}")
        return mark

    def leave(self, module: Any, output: Any) -> None:  # noqa: ANN401 - torch
        thread = _THREAD
        if self._every:
            if self.backward is not None:
                self.backward.leave(module, output)
            RANGES.pop(module)
        if module is thread.outermost:
            if thread.depth:
                thread.depth -= 1
                return
            thread.outermost = None
            if self.backward is not None:
                self.backward.forget()
            RANGES.pop(_FORWARD)


def before_forward(module: Any, _arguments: Any) -> None:  # noqa: ANN401 - torch
    """Global forward pre-hook."""
    if _compiling() or not SWITCH.on or _marks is None:
        return
    try:
        _marks.enter(module)
    except Exception as error:
        SWITCH.fail(error)


def after_forward(module: Any, _arguments: Any, output: Any) -> None:  # noqa: ANN401 - torch
    """Global forward hook, which torch also calls where forward raises."""
    if _compiling() or not SWITCH.on or _marks is None:
        return
    try:
        _marks.leave(module, output)
    except Exception as error:
        SWITCH.fail(error)


def set_marks(marks: ModuleMarks | None, compiling: Callable[[], bool] = _never) -> None:
    """Set what the hooks call."""
    global _marks, _compiling
    _marks, _compiling = marks, compiling


def in_forward() -> bool:
    return _THREAD.outermost is not None


def mark_compiled(module_class: Any) -> None:  # noqa: ANN401 - torch.nn.Module
    """Mark modules that are compiled in place, whose hooks run inside the compiled region only."""
    compile_in_place = module_class.compile

    def compile(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - torch's name
        compile_in_place(self, *args, **kwargs)
        if SWITCH.on:
            SWITCH.guard(_surround_compiled, self)

    compile.__doc__ = compile_in_place.__doc__
    module_class.compile = compile


def _surround_compiled(module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
    module._compiled_call_impl = _surround(module, module._compiled_call_impl)


def _surround(module: Any, call: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ANN401 - torch
    def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch
        if _compiling():
            return call(*args, **kwargs)
        before_forward(module, args)
        result = None
        try:
            result = call(*args, **kwargs)
        finally:
            after_forward(module, args, result)
        return result

    return marked
