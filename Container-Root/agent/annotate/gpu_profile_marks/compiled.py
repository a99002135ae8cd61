"""Marks of an optimizer's step that torch.compile runs: its hooks run while it is traced only.

Python 3.8, stdlib only. `torch.compile(optimizer.step)` and a compiled function that uses one
optimizer, and no module, are surrounded as a whole.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.hooks import in_file_of
from gpu_profile_marks.phases import surround
from gpu_profile_marks.ranges import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpu_profile_marks.step_marks import StepMarks


def mark_compiled_steps(
    torch: Any,  # noqa: ANN401 - torch
    steps: StepMarks,
    hook: Callable[[Any], None] | None = None,
) -> None:
    """Replace torch.compile by one that surrounds what it returns for an optimizer's step, and
    calls `hook` with anything else that it returns.
    """
    compile_any = torch.compile

    def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch's name
        compiled = compile_any(*args, **kwargs)
        if not SWITCH.is_alive():
            return compiled
        try:
            optimizer = find_stepped_optimizer(torch, args[0] if args else kwargs.get("model"))
            if optimizer is not None:
                return _surround(torch, compiled, optimizer, steps)
            if hook is not None:
                hook(compiled)
            return compiled
        except Exception as error:
            SWITCH.fail(error)
            return compiled

    torch.compile = in_file_of(compile_any, compile)


def _surround(torch: Any, call: Callable[..., Any], optimizer: Any, steps: StepMarks) -> Any:  # noqa: ANN401 - torch
    message = f"optimizer {type(optimizer).__name__}"
    at_end = functools.partial(steps.optimizer_called, optimizer)
    return functools.wraps(call)(surround(torch, call, message, at_end))


def find_stepped_optimizer(torch: Any, function: Any) -> Any:  # noqa: ANN401 - torch
    """Return the optimizer whose step a function is, or calls and does little else; else None.

    By the names in its code: one optimizer, `step`, no module and no `backward`.
    """
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.optim.Optimizer):
        return owner if function.__name__ == "step" else None
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    is_step = hasattr(function, "_wrapped_by_lr_sched")  # optimizer.step, wrapped by a schedule
    if code is None or not (is_step or "step" in code.co_names) or "backward" in code.co_names:
        return None
    values = list(_list_values(function, code))
    if any(isinstance(value, torch.nn.Module) for value in values):
        return None
    optimizers = {id(value): value for value in values if isinstance(value, torch.optim.Optimizer)}
    return next(iter(optimizers.values())) if len(optimizers) == 1 else None


def _list_values(function: Any, code: Any) -> Iterator[Any]:  # noqa: ANN401 - a function
    """Yield what the names in a function's code stand for: globals, closure, and self.NAME."""
    plain = getattr(function, "__func__", function)
    owner = getattr(function, "__self__", None)
    for name in code.co_names:
        if name in plain.__globals__:
            yield plain.__globals__[name]
        if owner is not None and name in getattr(owner, "__dict__", ()):
            yield owner.__dict__[name]
    for cell in plain.__closure__ or ():
        try:
            value = cell.cell_contents
            yield value() if isinstance(value, weakref.ref) else value
        except ValueError:  # a variable that is not set yet
            continue
