"""Count the forwards of a program that trains nothing. Python 3.8, stdlib only.

No optimizer tells its model there, but `model.eval()` does, which programs call before they use a
model. A CUDA graph is replayed in place of forwards, and calls no module: a replay counts as one. A
forward is no step of the report: it tells how much slower the profiler makes the program.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.hooks import in_file_of
from gpu_profile_marks.ranges import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_OTHERS = 250
"""Forwards of other models between two of the counted one. A pipeline runs its text encoder once
for an image, and its U-Net 20 to 100 times: the encoder is counted, as an image is the repetition.
A model that ran in the warm-up alone is counted no longer."""
_MOST_MODELS = 1000


class Forwards:
    """The models in evaluation, one of which is counted, until the process makes an optimizer."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401 - torch
        forget_end: Callable[[], bool],
        hook: Callable[[Any], list[Any]] | None,
    ) -> None:
        """`hook` sets hooks on what is called of a model, and returns that; None where each module
        has some. `forget_end`: of the recording.
        """
        self._forget_end = forget_end
        self._cuda = torch.cuda
        self._hook = hook
        self._models: dict[int, Any] = {}
        self._counted = 0
        self._others = 0
        self.are_counted = True

    def add(self, model: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        if not self.are_counted or len(self._models) >= _MOST_MODELS:
            return
        for module in self._hook(model) if self._hook is not None else [model]:
            self._models[id(module)] = weakref.ref(module)

    def counts(self, model: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module or CUDAGraph
        """Return whether this forward counts, or this replay of a graph. The program must not wait
        while it captures a graph, as it does where the recording ends.
        """
        if not self._is_known(model):
            return False
        self._others += 1
        if self._counted not in (0, id(model)) and self._others <= _MOST_OTHERS:
            return False
        # On a machine without a driver the second one raises.
        if self._cuda.is_initialized() and self._cuda.is_current_stream_capturing():
            return False
        self._counted, self._others = id(model), 0
        return True

    def _is_known(self, model: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module or CUDAGraph
        if isinstance(model, self._cuda.CUDAGraph):
            return self.are_counted
        find = self._models.get(id(model))
        return self.are_counted and find is not None and find() is model

    def end(self) -> bool:
        """Count no more. Returns whether steps may be counted: a control is of one kind."""
        self.are_counted = False
        self._models.clear()
        return not self._counted or self._forget_end()


class _Inside(threading.local):
    """Whether this thread is in the call of the outermost module."""

    model = False


_INSIDE = _Inside()


def watch_models(torch: Any, call: Callable[[Any], None]) -> None:  # noqa: ANN401 - torch
    """Replace torch.nn.Module.train by one that gives a module to `call`, too, where it is called
    with False, as by `eval`: models of transformers have an `eval` of their own. It calls itself
    for the parts of a module.
    """
    switch = torch.nn.Module.train

    def train(module: Any, mode: bool = True) -> Any:  # noqa: ANN401, FBT - torch's name
        if mode or _INSIDE.model:
            return switch(module, mode)
        _INSIDE.model = True
        try:
            result = switch(module, mode)
        finally:
            _INSIDE.model = False
        if SWITCH.is_alive():
            SWITCH.guard(call, module)
        return result

    torch.nn.Module.train = in_file_of(switch, train)


def watch_replays(torch: Any, call: Callable[[Any], None]) -> None:  # noqa: ANN401 - torch
    """Replace torch.cuda.CUDAGraph.replay by one that gives the graph to `call` first."""
    original = torch.cuda.CUDAGraph.replay

    def replay(graph: Any) -> Any:  # noqa: ANN401 - a torch.cuda.CUDAGraph
        if SWITCH.is_alive():
            SWITCH.guard(call, graph)
        return original(graph)

    torch.cuda.CUDAGraph.replay = in_file_of(original, replay)
