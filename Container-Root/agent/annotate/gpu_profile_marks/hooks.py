"""Hooks and wrappers that torch.compile, torch.export and pickle leave alone.

Python 3.8, stdlib only.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.ranges import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable


class Hook:
    """A hook that is pickled as one that does nothing: its reader may have no marks."""

    call: Callable[..., None]
    compiling: Callable[[], bool]
    set_tracer: Callable[..., Any]

    def __reduce__(self) -> Any:  # noqa: ANN401 - pickle's
        return getattr, (contextlib.nullcontext(), "__exit__")

    def __copy__(self) -> Hook:
        return self

    def __deepcopy__(self, _memo: Any) -> Hook:  # noqa: ANN401 - a dict
        return self

    def __call__(self, *arguments: Any) -> None:  # noqa: ANN401 - torch
        if self.compiling() or not SWITCH.on:
            return
        tracer = self.set_tracer(None)
        try:
            self.call(*arguments)
        finally:
            self.set_tracer(tracer)


def make_global_hook(torch: Any, call: Callable[..., None]) -> Callable[..., None]:  # noqa: ANN401 - torch
    """Return such a hook as a function, which Python calls sooner. Nobody pickles global hooks.

    An error in `call` ends the marks.
    """
    compiling = torch.compiler.is_compiling
    set_tracer = torch._C._dynamo.eval_frame.set_eval_frame

    def hook(*arguments: Any) -> None:  # noqa: ANN401 - torch
        if compiling() or not SWITCH.on:
            return
        tracer = set_tracer(None)
        try:
            call(*arguments)
        except Exception as error:
            SWITCH.fail(error)
        finally:
            set_tracer(tracer)

    file = torch.nn.Module.__call__.__code__.co_filename
    hook.__code__ = hook.__code__.replace(co_filename=file)
    return hook


def make_hook(torch: Any, call: Callable[..., None]) -> Hook:  # noqa: ANN401 - torch
    """Return a hook that calls `call` with torch.compile off.

    torch.compile leaves frames of torch's files alone, and hooks of a compiled module run beside
    its compiled forward: torch.export accepts no second frame.
    """
    hook = Hook()
    hook.call = call
    hook.compiling = torch.compiler.is_compiling
    hook.set_tracer = torch._C._dynamo.eval_frame.set_eval_frame
    file = torch.nn.Module.__call__.__code__.co_filename
    Hook.__call__.__code__ = Hook.__call__.__code__.replace(co_filename=file)
    return hook


def in_file_of(call: Any, wrapper: Any) -> Any:  # noqa: ANN401 - functions
    """Return the wrapper under the name and in the file of the function of torch that it calls.

    torch.compile leaves frames of torch's files alone. A frame of our file would be one more to
    trace, and one more graph break.
    """
    code = call.__code__
    wrapper.__code__ = wrapper.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
    return functools.wraps(call)(wrapper)
