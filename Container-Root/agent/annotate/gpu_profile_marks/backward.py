"""Marks of the backward pass by module, without a node more in autograd's graph.

Python 3.8, stdlib only. autograd numbers nodes in the order of their making (sequence numbers, by
thread), and runs the backward pass from high to low numbers. So the nodes that one module made
between two calls of other modules run one after the other. A pre-hook on the first of them tells
that the module's backward begins. The first one can only be a node that a node of another module
uses: the walk below finds those from the module's outputs. Pre-hooks return None: gradients are as
they were. Full backward hooks would insert nodes.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from bisect import bisect_right
from typing import Any

from gpu_profile_marks.ranges import RANGES, SWITCH, make_mark

_MOST_DEPTH = 4  # of tuples and mappings in a module's output
_OF_PARAMETER = 2**64 - 1  # the number of an AccumulateGrad, UINT64_MAX: torch/csrc/autograd/node.h
_HOOKED = "gpu-profile"  # in the metadata of an AccumulateGrad, which DDP keeps for all steps
_GRADIENT = object()  # the key of the range around one


class _Span:
    """The nodes [start, end) of a finished module, and the nodes of others that they use."""

    __slots__ = ("end", "inputs", "start")

    def __init__(self, start: int, end: int, inputs: list[Any]) -> None:
        self.start, self.end, self.inputs = start, end, inputs


class _Thread(threading.local):
    """The modules whose forward runs in this thread, and the spans of those that have ended."""

    def __init__(self) -> None:
        self.entered: list[tuple[Any, int, str]] = []
        self.spans: list[_Span] = []
        self.first = 0  # of the nodes of the outermost forward
        self.reduced = False  # whether gradients are reduced over processes


class Backward:
    """Finds the nodes of each module at the end of its forward, and hooks the first ones."""

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - torch
        self._torch = torch
        self._sequence = torch._C._autograd._get_sequence_nr
        self._task = torch._C._current_graph_task_id
        self._compiling = torch.compiler.is_compiling
        self._tensor = torch.Tensor
        self._thread = _Thread()
        self._begins: dict[str, Any] = {}
        self._is_distributed = _find_initialized(torch)
        self._waiting = 0  # forwards whose backward has not begun

    def enter(self, module: Any, text: str) -> None:  # noqa: ANN401 - a torch.nn.Module
        thread, number = self._thread, self._sequence()
        if not thread.entered:
            thread.first = number
            thread.reduced = self._is_distributed()
        thread.entered.append((module, number, text))

    def leave(self, module: Any, output: Any) -> None:  # noqa: ANN401 - torch
        entered = self._thread.entered
        while entered:
            inner, start, text = entered.pop()
            if inner is module:
                end = self._sequence()
                if end > start:
                    self._hook_nodes(start, end, text, output)
                return

    def forget(self) -> None:
        """Drop all nodes: they hold the graph, and the graph its saved tensors."""
        self._waiting += bool(self._thread.spans)
        self._thread.entered.clear()
        self._thread.spans.clear()

    def _hook_nodes(self, start: int, end: int, text: str, output: Any) -> None:  # noqa: ANN401 - torch
        spans = self._thread.spans
        place, inside = len(spans), 0
        while place and spans[place - 1].start >= start:
            place -= 1
            inside += spans[place].end - spans[place].start
        if inside == end - start:  # no node of its own: its parent skips the spans inside it
            return
        inner = spans[place:]
        del spans[place:]
        own, inputs, gradients = self._find_nodes(start, end, inner, output)
        casts = [node for node in inputs if _is_kept_cast(node, self._thread.first)]
        if own or casts:
            begin = self._begin_of(text)
            for node in (*own, *casts):
                node.register_prehook(begin)
        if casts:
            gradients += [each for node in casts for each, _ in node.next_functions]
            inputs = [node for node in inputs if node not in casts]
        self._hook_gradients(gradients, text)
        spans.append(_Span(start, end, inputs))

    def _find_nodes(
        self,
        start: int,
        end: int,
        inner: list[_Span],
        output: Any,  # noqa: ANN401 - torch
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return what _walk() returns. Most modules are leaves that make one node."""
        if end - start == 1 and isinstance(output, self._tensor):
            root = _find_node(output)
            if root is not None and root._sequence_nr() == start:
                used = [node for node, _ in root.next_functions if node is not None]
                gradients = [node for node in used if node._sequence_nr() == _OF_PARAMETER]
                return [root], [node for node in used if node not in gradients], gradients
        roots = [_find_node(tensor) for tensor in self._tensors(output, 0)]
        return _walk([node for node in roots if node is not None], start, end, inner)

    def _hook_gradients(self, nodes: list[Any], text: str) -> None:
        """Surround the AccumulateGrad of each parameter, and what DDP launches behind it.

        Alone in its process a gradient that is the first of its step is kept as it is, without a
        kernel: its AccumulateGrad needs no hooks, which cost 10 us a parameter.
        """
        for node in nodes:
            parameter = getattr(node, "variable", None)  # torch's Error has that number, too
            if parameter is None:
                continue
            if not (self._thread.reduced or self._waiting or parameter.grad is not None):
                continue
            facts = node.metadata
            if _HOOKED not in facts:
                facts[_HOOKED] = text
                node.register_prehook(_make_accumulate(text))
                node.register_hook(_end_accumulate)

    def _tensors(self, value: Any, depth: int) -> list[Any]:  # noqa: ANN401 - torch
        if isinstance(value, self._tensor):
            return [value]
        if depth < _MOST_DEPTH:
            if isinstance(value, dict):
                value = tuple(value.values())
            elif dataclasses.is_dataclass(value):
                fields = dataclasses.fields(value)
                value = tuple(getattr(value, field.name, None) for field in fields)
            if isinstance(value, (tuple, list)):
                return [each for item in value for each in self._tensors(item, depth + 1)]
        return []

    def _begin_of(self, text: str) -> Any:  # noqa: ANN401 - a callable
        begin = self._begins.get(text)
        if begin is None:
            begin = self._begins[text] = self._make_begin(text)
        return begin

    def _make_begin(self, text: str) -> Any:  # noqa: ANN401 - a callable
        mark = make_mark(f"backward {text}")
        torch, task_of, compiling = self._torch, self._task, self._compiling

        def begin(_gradients: Any) -> None:  # noqa: ANN401 - torch
            if compiling() or not SWITCH.on:
                return
            try:
                self._waiting = 0
                task = task_of()
                open_ = RANGES.open
                last = open_[-1] if open_ else None
                if last is not None and type(last[0]) is _Task and last[0].number == task:
                    if last[1] is mark:
                        return
                    key = last[0]
                    RANGES.pop(key)
                else:
                    key = _Task(task)
                    end = functools.partial(_end, key)
                    torch.autograd.Variable._execution_engine.queue_callback(end)
                RANGES.push(key, mark)
            except Exception as error:
                SWITCH.fail(error)

        return begin


class _Task:
    """One backward pass in one thread: the key of its ranges."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _find_initialized(torch: Any) -> Any:  # noqa: ANN401 - torch, a callable
    """Return the function that tells whether a process group exists."""
    distributed = torch.distributed
    return distributed.is_initialized if distributed.is_available() else bool


def _find_node(tensor: Any) -> Any:  # noqa: ANN401 - torch
    """Return the node that made a tensor. torch refuses it for one of several views (`unbind`)
    after a change in place: nobody can differentiate such a view.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def _end(key: _Task) -> None:
    """End the ranges of a backward pass, in the thread where it ends."""
    try:
        RANGES.pop(key)
    except Exception as error:
        SWITCH.fail(error)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - functools.cache is of Python 3.9
def _make_accumulate(text: str) -> Any:  # noqa: ANN401 - a callable
    """Return the pre-hook of a parameter's AccumulateGrad. Outside of a module's backward (a loss
    with parameters of its own) it marks nothing."""
    mark = make_mark(f"accumulate {text}")

    def begin(_gradients: Any) -> None:  # noqa: ANN401 - torch
        try:
            open_ = RANGES.open
            if SWITCH.on and open_ and type(open_[-1][0]) is _Task:
                RANGES.push(_GRADIENT, mark)
        except Exception as error:
            SWITCH.fail(error)

    return begin


def _end_accumulate(_inputs: Any, _outputs: Any) -> None:  # noqa: ANN401 - torch
    try:
        RANGES.pop(_GRADIENT)
    except Exception as error:
        SWITCH.fail(error)


def _is_kept_cast(node: Any, first: int) -> bool:  # noqa: ANN401 - a node of autograd
    """Return whether an earlier forward made this node of parameters alone."""
    used = node.next_functions
    return bool(
        node._sequence_nr() < first
        and used
        and all(each is not None and each._sequence_nr() == _OF_PARAMETER for each, _ in used)
    )


def _walk(
    roots: list[Any], start: int, end: int, inner: list[_Span]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return a module's own nodes that others use, the nodes of others that it uses, and the
    AccumulateGrad of each parameter that its own nodes use.

    `roots` are nodes of its outputs. Nodes of modules inside it are skipped as a whole: their
    spans say what they use. Each node is visited once.
    """
    starts = [span.start for span in inner]
    own: dict[Any, None] = {}  # as ordered sets
    inputs: dict[Any, None] = {}
    gradients: dict[Any, None] = {}
    seen: set[Any] = set()
    passed: set[int] = set()
    todo = [(root, True) for root in roots]
    while todo:
        node, from_other = todo.pop()
        number = node._sequence_nr()
        if number >= end:
            if number == _OF_PARAMETER:
                gradients[node] = None
            continue
        if number < start:
            inputs[node] = None
            continue
        place = bisect_right(starts, number) - 1
        if place >= 0 and number < inner[place].end:
            if place not in passed:
                passed.add(place)
                todo += [(each, True) for each in inner[place].inputs]
            continue
        if from_other:
            own[node] = None
        if node not in seen:
            seen.add(node)
            todo += [(each, False) for each, _ in node.next_functions if each is not None]
    return list(own), list(inputs), list(gradients)
