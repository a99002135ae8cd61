"""Hooks around the forward of every torch.nn.Module. Python 3.8, stdlib only.

While torch.compile traces, `_compiling()` is a constant for it, and the hooks are empty: they add
no graph break and no recompilation.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.names import COMPILED, Named, Names
from gpu_profile_marks.ranges import RANGES, SWITCH, Ranges, make_mark

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from gpu_profile_marks.backward import Backward
    from gpu_profile_marks.stopwatch import Stopwatch

_FORWARD = object()
_MOST_SEARCHES = 64  # for modules that were added to a model: some 1 ms each


class _Thread(threading.local):
    """The outermost module whose forward runs in this thread, and how often it runs in itself."""

    outermost: Any = None
    depth = 0
    compiled: Any = None
    """The compiled module that runs: its hooks may run in it, too."""
    watch: Stopwatch | None = None
    """What times the forward of the outermost module, where steps count it."""


_THREAD = _Thread()


def _never() -> bool:
    return False


# Module globals, not attributes: torch.compile reads them while it traces the hooks.
_compiling: Callable[[], bool] = _never
_marks: ModuleMarks | None = None


class ModuleMarks:
    """The marks of forwards. `starts` is called with an outermost module before its forward, and
    returns what times it.
    """

    def __init__(self, starts: Callable[[Any], Stopwatch | None]) -> None:
        self._starts = starts
        self._phase = make_mark("forward")

    def enter(self, module: Any, _arguments: Any = ()) -> None:  # noqa: ANN401 - torch
        thread = _THREAD
        if thread.compiled is module:
            return
        if type(module).__name__ == COMPILED:
            thread.compiled = module._modules["_orig_mod"]
        outermost = thread.outermost
        if module is outermost:
            if _is_called_inside_a_module():
                thread.depth += 1
            else:
                self._end()
                outermost = None
        if outermost is None:
            thread.outermost = module
            self._begin(module)

    def _begin(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        """Begin the outermost forward."""
        self._open(self._starts(module))

    def _open(self, watch: Stopwatch | None) -> None:
        RANGES.push(_FORWARD, self._phase)
        _THREAD.watch = watch
        if watch is not None:
            watch.start()

    def leave(self, module: Any, _arguments: Any, _output: Any) -> None:  # noqa: ANN401 - torch
        thread = _THREAD
        if thread.compiled is module:
            return
        if type(module).__name__ == COMPILED:
            thread.compiled = None
        if module is thread.outermost:
            if thread.depth:
                thread.depth -= 1
                return
            self._end()

    def _end(self) -> None:
        """End the outermost forward."""
        thread = _THREAD
        if thread.watch is not None:
            thread.watch.stop()
        thread.outermost, thread.depth, thread.watch = None, 0, None
        RANGES.pop(_FORWARD)


class EveryModuleMarks(ModuleMarks):
    """The marks of every module's forward and backward.

    What runs for each module is in as few frames as can be: 1 us of Python for each would add a
    tenth to a step of small modules.
    """

    def __init__(self, starts: Callable[[Any], Stopwatch | None], backward: Backward) -> None:
        super().__init__(starts)
        self._backward = backward
        self._names = Names()
        self._named = self._names.by_id
        self._searches = _MOST_SEARCHES
        self._domain = Ranges.domain
        self._is_over = False

    def end(self) -> None:
        """Mark outermost forwards only, as steps are counted by them."""
        self._is_over = True

    def enter(self, module: Any, _arguments: Any = ()) -> None:  # noqa: ANN401 - torch
        thread = _THREAD
        if self._is_over:
            super().enter(module)
            return
        if thread.compiled is module:
            return
        outermost = thread.outermost
        named = self._named.get(id(module))
        if (
            outermost is None
            or outermost is module
            or named is None
            or named.module() is not module
            or named.is_compiled
        ):
            super().enter(module)
            named = self._names.find(module) or self._name_late(module)
        self._backward.enter(named)
        mark = named.forward or named.make_forward()
        RANGES.open.append((module, mark))
        self._domain.push(mark.address)

    def _begin(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        # The marks may end in this call: then this forward is the last one with marks.
        is_over = self._is_over
        watch = self._starts(module)
        if not is_over:
            if self._names.find(module) is None:
                self._names.name_tree(module)
            self._backward.begin(module)
        self._open(watch)

    def _name_late(self, module: Any) -> Named:  # noqa: ANN401 - a torch.nn.Module
        """Name a module that was not in the outermost one when that was named.

        It was added since (an adapter), or is in no other module: programs also make modules in a
        forward, and a search for each would cost more than they do.
        """
        if self._searches:
            self._searches -= 1
            self._names.name_tree(_THREAD.outermost)
        return self._names.find(module) or self._names.name(module)

    def leave(self, module: Any, arguments: Any, output: Any) -> None:  # noqa: ANN401 - torch
        thread = _THREAD
        if self._is_over:
            super().leave(module, arguments, output)
            return
        if thread.compiled is module:
            return
        self._backward.leave(module, arguments, output)
        open_ = RANGES.open
        if open_ and open_[-1][0] is module:  # nearly always
            open_.pop()
            self._domain.pop()
        else:
            RANGES.pop(module)
        if thread.outermost is module or thread.compiled is not None:
            super().leave(module, arguments, output)

    def _end(self) -> None:
        self._backward.forget()
        super()._end()


def _is_called_inside_a_module() -> bool:
    """Return whether two calls of modules are on the stack: this one and one around it.

    torch calls no hook after a forward that ends in a KeyboardInterrupt, which a program can
    catch. What looks like a recursion is the next forward then.
    """
    frame: FrameType | None = sys._getframe()
    calls = 0
    while frame is not None and calls < 2:
        calls += frame.f_code.co_name == "_wrapped_call_impl"  # torch.nn.Module.__call__
        frame = frame.f_back
    return calls > 1


def before_forward(module: Any, arguments: Any) -> None:  # noqa: ANN401 - torch
    """Forward pre-hook. Whoever calls it has asked is_compiling()."""
    if not SWITCH.on or _marks is None:
        return
    try:
        _marks.enter(module, arguments)
    except Exception as error:
        SWITCH.fail(error)


def after_forward(module: Any, arguments: Any, output: Any) -> None:  # noqa: ANN401 - torch
    """Forward hook, which torch also calls where forward raises (`always_call` of
    https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html).
    """
    if not SWITCH.on or _marks is None:
        return
    try:
        _marks.leave(module, arguments, output)
    except Exception as error:
        SWITCH.fail(error)


def is_compiling() -> bool:
    return _compiling()


def set_marks(marks: ModuleMarks | None, compiling: Callable[[], bool] = _never) -> None:
    """Set what the hooks call."""
    global _marks, _compiling
    _marks, _compiling = marks, compiling


def mark_compiled(module_class: Any) -> None:  # noqa: ANN401 - torch.nn.Module
    """Mark modules that are compiled in place, whose hooks run inside the compiled region only."""
    compile_in_place = module_class.compile

    def compile(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - torch's name
        compile_in_place(self, *args, **kwargs)
        if SWITCH.is_alive():
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
        outer, _THREAD.compiled = _THREAD.compiled, module
        try:
            result = call(*args, **kwargs)
        finally:
            _THREAD.compiled = outer
            after_forward(module, args, result)
        return result

    return marked
