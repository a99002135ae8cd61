"""Marks of what torch.compile compiles, by function. Python 3.8, stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_profile_marks.hooks import in_file_of
from gpu_profile_marks.ranges import SWITCH

from gpu_profile_pauses.pause_marks import BETWEEN, COMPILATION, format_frame
from gpu_profile_pauses.places import short_place
from gpu_profile_pauses.unpatched import perf_counter_ns

if TYPE_CHECKING:
    from types import ModuleType

    from gpu_profile_pauses.pause_marks import PauseMarks

COMPILER = "torch._dynamo.convert_frame"
"""Its `_compile` gets the code of each function that torch.compile compiles, from 2.1 on.

https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_dynamo/convert_frame.py
"""


def mark_compilations(compiler: ModuleType, marks: PauseMarks) -> None:
    """Replace `_compile` by a function that calls it, and marks how long it took.

    torch calls it where a frame begins, with its tracer off: this adds nothing to what is traced.
    """
    compile_code = getattr(compiler, "_compile", None)
    if not callable(compile_code):
        return

    def _compile(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - torch
        began = perf_counter_ns()
        try:
            return compile_code(*args, **kwargs)
        finally:
            if SWITCH.on:
                code = args[0] if args else kwargs.get("code")
                SWITCH.guard(_write, marks, code, perf_counter_ns() - began)

    vars(compiler)["_compile"] = in_file_of(compile_code, _compile)


def _write(marks: PauseMarks, code: Any, ns: int) -> None:  # noqa: ANN401 - a code object
    frame = format_frame(code.co_name, short_place(code.co_filename), code.co_firstlineno)
    marks.write(BETWEEN.join((COMPILATION, frame)), ns)
