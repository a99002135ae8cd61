"""Marks of the phases of a step: data loading, backward, optimizer. Python 3.8, stdlib only."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.groups import close_groups, open_groups
from gpu_profile_marks.hooks import in_file_of
from gpu_profile_marks.ranges import RANGES, SWITCH, make_mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_profile_marks.step_marks import StepMarks
    from gpu_profile_marks.stopwatch import Stopwatch


class OptimizerMarks:
    """Global hooks around Optimizer.step, and the end of GradScaler.step."""

    def __init__(self, marks: StepMarks, compiling: Callable[[], bool]) -> None:
        self._marks = marks
        self._compiling = compiling

    def before(self, optimizer: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - torch
        if self._compiling() or not SWITCH.on:
            return None
        try:
            mark = make_mark(f"optimizer {type(optimizer).__name__}")
            # torch calls no hook after a step that raised an exception: its range is open.
            RANGES.pop(optimizer)
            RANGES.push(optimizer, mark)
            open_groups(optimizer)
            self._marks.steps.optimizer.start(id(optimizer))
            return self._with_closure(optimizer, mark, args, kwargs)
        except Exception as error:
            SWITCH.fail(error)
            return None

    def _with_closure(self, optimizer: Any, mark: Any, args: Any, kwargs: Any) -> Any:  # noqa: ANN401 - torch
        """Return the arguments with a closure that is outside the optimizer's range.

        A closure runs forward and backward (LBFGS; Lightning always gives one).
        """
        if callable(kwargs.get("closure")):
            closure = self._outside(kwargs["closure"], optimizer, mark)
            return args, {**kwargs, "closure": closure}
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._outside(args[1], optimizer, mark), *args[2:]), kwargs
        return None

    def _outside(self, closure: Any, optimizer: Any, mark: Any) -> Any:  # noqa: ANN401 - torch
        @functools.wraps(closure)
        def outside(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the user's
            reopen = SWITCH.on and SWITCH.guard(self._leave, optimizer)
            result = closure(*args, **kwargs)
            if reopen and SWITCH.on:
                SWITCH.guard(self._enter, optimizer, mark)
            return result

        return outside

    def _leave(self, optimizer: Any) -> bool:  # noqa: ANN401 - torch
        self._marks.steps.optimizer.stop(id(optimizer))
        return RANGES.pop(optimizer)

    def _enter(self, optimizer: Any, mark: Any) -> None:  # noqa: ANN401 - torch
        RANGES.push(optimizer, mark)
        self._marks.steps.optimizer.start(id(optimizer))

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:  # noqa: ANN401 - torch
        if self._compiling():
            return
        try:
            close_groups(optimizer)
            if SWITCH.on:
                self._leave(optimizer)
            if SWITCH.is_alive():
                self._marks.optimizer_called(optimizer)
        except Exception as error:
            SWITCH.fail(error)

    def count_skipped(self, torch: Any) -> None:  # noqa: ANN401 - torch
        """Count a step that GradScaler skips: it then does not call the optimizer.

        https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step
        """
        scaler_class = torch.amp.GradScaler
        step = scaler_class.step
        guarded = _untraced(torch)

        def counted(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            calls = self._marks.calls
            result = step(scaler, optimizer, *args, **kwargs)
            if SWITCH.on and self._marks.calls == calls:
                guarded(self._marks.optimizer_called, optimizer)
            return result

        scaler_class.step = in_file_of(step, counted)


def mark_calls(
    torch: Any,  # noqa: ANN401 - torch
    owner: Any,  # noqa: ANN401 - a module or a class of torch
    name: str,
    message: str,
    find_stopwatch: Callable[[], Stopwatch] | None = None,
) -> None:
    """Replace the function `owner.name` by that of surround()."""
    call = getattr(owner, name)
    marked = in_file_of(call, surround(torch, call, message, find_stopwatch=find_stopwatch))
    setattr(owner, name, marked)
    _keep_script_operator(torch, call, marked)


def _keep_script_operator(torch: Any, call: Any, marked: Any) -> None:  # noqa: ANN401 - torch
    """Have torch.jit.script know the new function as the operator that the old one is.

    It would compile the source of torch.autograd.backward, and fail.
    """
    builtins = getattr(torch.jit, "_builtins", None)
    operator = builtins._find_builtin(call) if builtins is not None else None
    if builtins is not None and operator is not None:
        builtins._register_builtin(marked, operator)


def surround(
    torch: Any,  # noqa: ANN401 - torch
    call: Callable[..., Any],
    message: str,
    at_end: Callable[[], None] | None = None,
    find_stopwatch: Callable[[], Stopwatch] | None = None,
) -> Callable[..., Any]:
    """Return a function that times `call`, runs it inside a range, and then runs `at_end`."""
    key, mark = object(), make_mark(message)
    guarded = _untraced(torch)

    # Each call has a holder of its own, so that a call inside another one counts once. The holder
    # is not the call's arguments: torch.compile compiles a frame that is given tensors.
    def begin(holder: object) -> None:
        RANGES.push(key, mark)
        if find_stopwatch is not None:
            find_stopwatch().start(id(holder))

    def end(holder: object) -> None:
        RANGES.pop(key)
        if find_stopwatch is not None:
            find_stopwatch().stop(id(holder))
        if at_end is not None and SWITCH.is_alive():
            at_end()

    def marked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch
        if not SWITCH.on:
            result = call(*args, **kwargs)
            if at_end is not None and SWITCH.asleep:
                guarded(at_end)
            return result
        holder = object()
        guarded(begin, holder)
        try:
            return call(*args, **kwargs)
        finally:
            guarded(end, holder)

    return marked


def _untraced(torch: Any) -> Callable[..., None]:  # noqa: ANN401 - torch
    """Return a function that calls ours with torch.compile off, and guards the call.

    Our own frames are not for torch.compile to trace. As torch.compiler.disable does it:
    https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
    """
    set_tracer = torch._C._dynamo.eval_frame.set_eval_frame

    def run(call: Callable[..., Any], *args: Any) -> None:  # noqa: ANN401 - any call
        tracer = set_tracer(None)
        try:
            call(*args)
        finally:
            set_tracer(tracer)

    def guarded(call: Callable[..., Any], *args: Any) -> None:  # noqa: ANN401 - any call
        SWITCH.guard(run, call, *args)

    return guarded
