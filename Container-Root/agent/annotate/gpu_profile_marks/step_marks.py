"""Mark the steps of the thread that trains, or count forwards. Python 3.8, stdlib only."""

from __future__ import annotations

import functools
import threading
import weakref
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.hooks import in_file_of
from gpu_profile_marks.nvtx import number
from gpu_profile_marks.ranges import RANGES, SWITCH, make_mark
from gpu_profile_marks.steps import FORWARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpu_profile_marks.ending import Ending
    from gpu_profile_marks.forwards import Forwards
    from gpu_profile_marks.steps import Steps
    from gpu_profile_marks.stopwatch import Stopwatch
    from gpu_profile_marks.window import Window

_STEP = object()
_MOST_CALLS = 2  # of an optimizer in a step that has a forward


class StepMarks:
    """The range `step` of the thread that trains, and what ends the recording."""

    def __init__(self, torch: Any, steps: Steps, window: Window | Ending | None) -> None:  # noqa: ANN401 - torch
        self.steps = steps
        self._window = window
        self._mark = make_mark("step")
        self._thread = 0
        self._torch = torch
        self._since_forward: dict[int, int] = {}
        self.calls = 0
        self.forwards: Forwards | None = None
        self._is_over = False

    def at_forward(self, module: Any) -> Stopwatch | None:  # noqa: ANN401 - a torch.nn.Module
        """Begin a step where this forward of the outermost module is the first of one. Returns what
        times it.

        Forwards in the backward pass (recomputation), inside another range (a transform in data
        loading) and in other threads are none.
        """
        self._since_forward.clear()
        ranges, thread = RANGES.open, threading.get_ident()
        inside = len(ranges) > 1 or (ranges and ranges[0][0] is not _STEP)
        if self._torch._C._current_graph_task_id() != -1 or inside:
            return None
        if self._thread not in (0, thread) or self._is_over:
            return None
        if self.forwards is not None and self.forwards.counts(module):
            self._thread = thread
            self.steps.unit = FORWARD
            self._count()
        elif self.steps.begins_at_forward():
            self._thread = thread
            self._begin()
        return self.steps.forward

    def at_replay(self, graph: Any) -> None:  # noqa: ANN401 - a torch.cuda.CUDAGraph
        """Count the replay of a CUDA graph where forwards are counted. One inside a forward, as of
        torch.compile, is a part of it.
        """
        if self.forwards is not None and self.forwards.are_counted:
            self.at_forward(graph)

    def begin_training(self) -> None:
        """Count steps in place of forwards: the program made an optimizer."""
        if self.forwards is None or not self.forwards.are_counted:
            return
        self._is_over = not self.forwards.end()
        if self.steps.unit == FORWARD and not self._is_over:
            self.steps.begin_again()

    def _count(self) -> int:
        """Begin a step without its range. Returns its number."""
        now = self.steps.begin()
        if self._window is not None:
            if self._window.turn(now, self.steps):
                self.steps.leave_out()
            self._window.save(self.steps)
        return now

    def _begin(self) -> None:
        RANGES.pop(_STEP)
        now = self._count()
        if self._mark.attributes is not None:
            number(self._mark.attributes, now)
        RANGES.push(_STEP, self._mark)

    def optimizer_called(self, optimizer: Any) -> None:  # noqa: ANN401 - a torch optimizer
        if self._is_over:
            return
        if not self.steps.made():
            self._thread = threading.get_ident()  # the one that trains: others may run forwards
        self.steps.call(id(optimizer), functools.partial(_find_others, optimizer))
        if SWITCH.asleep:
            self._count_asleep()
            return
        self.calls += 1
        # Nobody sees the forwards of a program that is compiled as a whole: its optimizer is called
        # again with none in between. Its steps begin after the optimizer. A compiled step can have
        # two calls: of the function around it, and of the hooks.
        calls = self._since_forward[id(optimizer)] = self._since_forward.get(id(optimizer), 0) + 1
        if calls > _MOST_CALLS and self.steps.begins_at_forward():
            self._begin()
        if self.steps.number >= 0 and not SWITCH.is_wanted():
            RANGES.pop(_STEP)
            SWITCH.set_asleep(True)
            self._count_asleep()

    def _count_asleep(self) -> None:
        """Count steps by their optimizer calls, until a window is wanted: the next forward begins
        a step then.
        """
        if SWITCH.is_wanted():
            SWITCH.set_asleep(False)
        elif self.steps.begins_at_forward():
            self._count()

    def finish(self) -> None:
        """End the last step, and the recording if the program ends inside the window."""
        if threading.get_ident() == self._thread:
            RANGES.pop(_STEP)
        if self._window is not None:
            self._window.stop(self.steps.made())
            self._window.save(self.steps, now=True)


def watch_optimizers(
    torch: Any,  # noqa: ANN401 - torch
    steps: StepMarks,
    call: Callable[[Any], None] | None,
) -> None:
    """Replace Optimizer.__init__ by one that also notes the optimizer, and gives it to `call`."""
    init = torch.optim.Optimizer.__init__

    def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - torch
        init(optimizer, *args, **kwargs)
        if SWITCH.is_alive():
            _OPTIMIZERS[id(optimizer)] = weakref.ref(optimizer)
            SWITCH.guard(steps.begin_training)
            if call is not None:
                SWITCH.guard(call, optimizer)

    torch.optim.Optimizer.__init__ = in_file_of(init, __init__)


# Not by a search through all objects: it would keep tensors alive that other threads drop.
_OPTIMIZERS: dict[int, Any] = {}


def _find_others(optimizer: Any) -> set[int]:  # noqa: ANN401 - torch
    """Return the optimizers that share no parameter with this one: they may take turns with it.

    A wrapper of an optimizer shares its parameters.
    """
    parameters = _list_parameters(optimizer)
    living = [other for find in list(_OPTIMIZERS.values()) if (other := find()) is not None]
    others = (other for other in living if other is not optimizer)
    return {id(other) for other in others if _shares_no_parameter(other, parameters)}


def _list_parameters(optimizer: Any) -> set[int]:  # noqa: ANN401 - a torch optimizer
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _shares_no_parameter(optimizer: Any, parameters: set[int]) -> bool:  # noqa: ANN401 - torch
    others = _list_parameters(optimizer) if "param_groups" in vars(optimizer) else set()
    return bool(others) and not others & parameters
