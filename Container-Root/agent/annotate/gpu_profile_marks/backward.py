"""Marks of the backward pass by module, without a node more in autograd's graph.

Python 3.8, stdlib only. autograd numbers nodes in the order of their making (sequence numbers, by
thread), and runs the backward pass from high to low numbers
(https://github.com/pytorch/pytorch/pull/4746). So the nodes that one module made between two calls
of other modules run one after the other. A pre-hook on the first of them tells that the module's
backward begins. The first one can only be a node that a node of another module uses: graph.py finds
those from the module's outputs. Pre-hooks return None: gradients are as they were
(https://docs.pytorch.org/docs/stable/generated/torch.Tensor.register_hook.html).
Full backward hooks would insert nodes (BackwardHook of torch/utils/hooks.py), and forbid changes in
place (register_full_backward_hook of
https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html).
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from gpu_profile_marks.graph import Span, find_node, find_nodes, is_kept_cast
from gpu_profile_marks.ranges import RANGES, SWITCH, Ranges, make_mark
from gpu_profile_marks.simple import find_known, is_simple, list_inputs

if TYPE_CHECKING:
    from gpu_profile_marks.names import Named

_HOOKED = "gpu-profile"  # in the metadata of an AccumulateGrad
_DDP = "DistributedDataParallel"
_GRADIENT = object()  # the key of the range around one


class _Thread(threading.local):
    """The modules whose forward runs in this thread, and the spans of those that have ended."""

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - torch
        # A node takes hooks from the dictionary of a tensor: register_prehook would make a
        # dictionary and a handle for each node, in 2 us. torch itself does it for tensors' hooks:
        # https://github.com/pytorch/pytorch/blob/v2.11.0/torch/_tensor.py
        self.holder = torch.empty(0, device="cpu")
        self.entered: list[tuple[int, Named]] = []
        self.spans: list[Span] = []
        self.first = 0  # of the nodes of the outermost forward
        self.reduced = False  # whether gradients are reduced over processes
        self.by_ddp = False  # which holds each AccumulateGrad for all steps


class Backward:
    """Finds the nodes of each module at the end of its forward, and hooks the first ones."""

    def __init__(self, torch: Any) -> None:  # noqa: ANN401 - torch
        self._torch = torch
        self._sequence = torch._C._autograd._get_sequence_nr
        self._task = torch._C._current_graph_task_id
        self._compiling = torch.compiler.is_compiling
        self._tensor = torch.Tensor
        self._thread = _Thread(torch)
        self._is_distributed = _find_initialized(torch)
        self._waiting = 0  # forwards whose backward has not begun

    def begin(self, module: Any) -> None:  # noqa: ANN401 - a torch.nn.Module
        """Note that an outermost forward begins."""
        thread = self._thread
        thread.first = self._sequence()
        thread.reduced = self._is_distributed()
        thread.by_ddp = thread.reduced and type(module).__name__ == _DDP

    def enter(self, named: Named) -> None:
        self._thread.entered.append((self._sequence(), named))

    def leave(self, module: Any, arguments: Any, output: Any) -> None:  # noqa: ANN401 - torch
        thread = self._thread
        entered = thread.entered
        # torch calls no hook after a forward that was interrupted: those above are dropped.
        while entered:
            start, named = entered.pop()
            if named.module() is module:
                end = self._sequence()
                if end > start:
                    self._hook_nodes(start, end, named, module, arguments, output)
                return

    def forget(self) -> None:
        """Drop all nodes: they hold the graph, and the graph its saved tensors."""
        self._waiting += bool(self._thread.spans)
        self._thread.entered.clear()
        self._thread.spans.clear()

    def _hook_nodes(
        self,
        start: int,
        end: int,
        named: Named,
        module: Any,  # noqa: ANN401 - a torch.nn.Module
        arguments: Any,  # noqa: ANN401 - torch
        output: Any,  # noqa: ANN401 - torch
    ) -> None:
        spans, entered = self._thread.spans, self._thread.entered
        is_read = bool(entered) and entered[-1][1].reads_spans
        # Spans are in the order of their numbers, so those inside this module are the last ones.
        place, inside = len(spans), 0
        while place and spans[place - 1].start >= start:
            place -= 1
            inside += spans[place].end - spans[place].start
        if inside == end - start:  # it made no node itself: its parent skips the spans inside it
            named.reads_spans = is_read
            return
        inner = spans[place:]
        if inner:
            del spans[place:]
        if named.nodes == end - start and named.offsets and self._needs_no_gradients(named, module):
            first = self._find_known(start, named, output, inner)
            if first:
                self._hook(first, named)
                inputs = list_inputs(arguments, self._tensor) if is_read else None
                spans.append(Span(start, end, inputs))
                return
        named.reads_spans = True
        part = find_nodes(output, self._tensor, start, end, inner)
        casts = [node for node in part[1] if is_kept_cast(node, self._thread.first)]
        if named.nodes != end - start:
            named.nodes = end - start
            is_known = not casts and is_simple(module, arguments, self._tensor, part)
            named.offsets = {node._sequence_nr() - start for node in part[0] if is_known}
        spans.append(Span(start, end, self._hook_part(named, part, casts)))

    def _find_known(self, start: int, named: Named, output: Any, inner: list[Span]) -> list[Any]:  # noqa: ANN401 - torch
        node = find_node(output) if isinstance(output, self._tensor) else None
        offsets = named.offsets
        # So are nearly all modules: their last node, which the output names, is the first to run.
        if node is not None and len(offsets) == 1 and node._sequence_nr() - start in offsets:
            named.reads_spans = False
            return [node]
        named.reads_spans = True
        return find_known(output, self._tensor, start, inner, offsets)

    def _hook_part(
        self, named: Named, part: tuple[list[Any], list[Any], list[Any]], casts: list[Any]
    ) -> list[Any]:
        """Hook the module's part of the graph. Returns the nodes of others that the module uses."""
        nodes, inputs, gradients = part
        if named.begin is None:
            named.begin = {0: self._make_begin(named.text)}
        self._hook([*nodes, *casts], named)
        if casts:
            gradients += [function for node in casts for function, _ in node.next_functions]
            inputs = [node for node in inputs if node not in casts]
        named.is_reduced = self._hook_gradients(gradients, named.text) and self._thread.by_ddp
        return inputs

    def _hook(self, nodes: list[Any], named: Named) -> None:
        holder = self._thread.holder
        holder._backward_hooks = named.begin
        for node in nodes:
            node._register_hook_dict(holder)

    def _needs_no_gradients(self, named: Named, module: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module
        """Return whether the AccumulateGrads of the module's parameters get no hooks now."""
        thread = self._thread
        if thread.reduced:
            return thread.by_ddp and named.is_reduced
        if self._waiting:
            return False
        for parameter in module._parameters.values():
            if parameter is not None and parameter.grad is not None:
                return False
        return True

    def _hook_gradients(self, nodes: list[Any], text: str) -> bool:
        """Surround the AccumulateGrad of each parameter, and what DDP launches after it. Returns
        whether all have hooks since an earlier forward.

        Alone in its process a gradient that is the first of its step is kept as it is, without a
        kernel: its AccumulateGrad needs no hooks, which cost 10 us a parameter.
        """
        kept = True
        for node in nodes:
            parameter = getattr(node, "variable", None)  # torch's Error has that number, too
            if parameter is None:
                continue
            if not (self._thread.reduced or self._waiting or parameter.grad is not None):
                kept = False
                continue
            # DDP holds each AccumulateGrad for all steps (grad_accumulators_ of
            # https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/distributed/c10d/reducer.hpp):
            # a second hook would be called as well.
            facts = node.metadata
            if _HOOKED not in facts:
                kept = False
                facts[_HOOKED] = text
                node.register_prehook(_make_accumulate(text))
                node.register_hook(_end_accumulate)
        return kept

    def _make_begin(self, text: str) -> Any:  # noqa: ANN401 - a callable
        mark = make_mark(f"backward {text}")
        torch, task_of, compiling = self._torch, self._task, self._compiling
        domain = Ranges.domain

        def begin(_gradients: Any) -> None:  # noqa: ANN401 - torch
            if compiling() or not SWITCH.on:
                return
            try:
                self._waiting = 0
                task = task_of()
                # The list once, not RANGES.open thrice: each is a look-up of a thread's local.
                open_ = RANGES.open
                key, last = open_[-1] if open_ else (None, None)
                if type(key) is _Task and key.number == task:
                    if last is not mark:
                        open_[-1] = key, mark
                        domain.pop()
                        domain.push(mark.address)
                    return
                # No hook tells the end of a backward pass. autograd calls these callbacks after
                # its last node: GraphTask::exec_post_processing of
                # https://github.com/pytorch/pytorch/blob/v2.11.0/torch/csrc/autograd/engine.cpp
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
    # bool() is False: a torch without torch.distributed has no process group.
    return distributed.is_initialized if distributed.is_available() else bool


def _end(key: _Task) -> None:
    """End the ranges of a backward pass, in the thread where it ends."""
    try:
        RANGES.pop(key)
    except Exception as error:
        SWITCH.fail(error)


# As many entries as there are names of modules, which names.py keeps bounded.
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
