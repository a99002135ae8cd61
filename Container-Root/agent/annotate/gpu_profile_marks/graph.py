"""The nodes of one module in autograd's graph. Python 3.8, stdlib only.

Each thread numbers the nodes in the order of their making, and a forward makes them one after the
other: those of a module are an interval of numbers.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from typing import Any

OF_PARAMETER = 2**64 - 1
"""The number of an AccumulateGrad, UINT64_MAX, so that it runs first of all:
https://github.com/pytorch/pytorch/pull/7604"""
_MOST_DEPTH = 4  # of tuples and mappings in a module's output


class Span:
    """The nodes [start, end) of a finished module, and the nodes of others that they use.

    `inputs` is None where no module around it was expected to read them.
    """

    __slots__ = ("end", "inputs", "start")

    def __init__(self, start: int, end: int, inputs: list[Any] | None) -> None:
        self.start, self.end, self.inputs = start, end, inputs


def find_node(tensor: Any) -> Any:  # noqa: ANN401 - torch
    """Return the node that made a tensor. torch refuses it for one of several views (`unbind`)
    after a change in place: nobody can differentiate such a view.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def is_kept_cast(node: Any, first: int) -> bool:  # noqa: ANN401 - a node of autograd
    """Return whether an earlier forward made this node of parameters alone.

    Autocast keeps its casts of weights until its context ends, and several forwards can lie in one
    context (`cache_enabled` of https://docs.pytorch.org/docs/stable/amp.html).
    """
    used = node.next_functions
    return bool(
        node._sequence_nr() < first
        and used
        and all(
            function is not None and function._sequence_nr() == OF_PARAMETER for function, _ in used
        )
    )


def list_tensors(value: Any, kind: type, depth: int = 0) -> list[Any]:  # noqa: ANN401 - torch
    """Return the tensors in a module's output: tuples, mappings and dataclasses of them."""
    if isinstance(value, kind):
        return [value]
    if depth < _MOST_DEPTH:
        if isinstance(value, dict):
            value = tuple(value.values())
        elif dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            value = tuple(getattr(value, field.name, None) for field in fields)
        if isinstance(value, (tuple, list)):
            return [tensor for item in value for tensor in list_tensors(item, kind, depth + 1)]
    return []


def find_nodes(
    output: Any,  # noqa: ANN401 - torch
    kind: type,
    start: int,
    end: int,
    inner: list[Span],
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return what _walk() returns for the module with this output.

    Most modules are leaves that make one node, as Linear does: no walk is needed for it.
    """
    if end - start == 1 and isinstance(output, kind):
        root = find_node(output)
        if root is not None and root._sequence_nr() == start:
            used = [node for node, _ in root.next_functions if node is not None]
            gradients = [node for node in used if node._sequence_nr() == OF_PARAMETER]
            return [root], [node for node in used if node not in gradients], gradients
    roots = [find_node(tensor) for tensor in list_tensors(output, kind)]
    return _walk([node for node in roots if node is not None], start, end, inner)


def _walk(
    roots: list[Any], start: int, end: int, inner: list[Span]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return a module's nodes that others use, the nodes of others that it uses, and the
    AccumulateGrad of each parameter that its nodes use. `roots` are nodes of its outputs.

    Nodes of modules inside it are skipped: their spans say what they use, or a walk through them.
    """
    starts = [span.start for span in inner]
    # Dictionaries as ordered sets: the order of hooks must not depend on addresses.
    first_nodes: dict[Any, None] = {}
    inputs: dict[Any, None] = {}
    gradients: dict[Any, None] = {}
    seen: set[Any] = set()
    # A list and not a recursion: a module of a thousand operations would exceed Python's limit.
    todo = [(root, True) for root in roots]
    while todo:
        node, from_other = todo.pop()
        number = node._sequence_nr()
        if number >= end:
            if number == OF_PARAMETER:
                gradients[node] = None
            continue
        if number < start:
            inputs[node] = None
            continue
        place = bisect_right(starts, number) - 1
        if place >= 0 and number < inner[place].end:
            key = node if inner[place].inputs is None else place
            if key not in seen:
                seen.add(key)
                todo += [(before, True) for before in _list_used(node, inner[place])]
            continue
        # Before `seen`: a node of several users can be reached from inside the module first.
        if from_other:
            first_nodes[node] = None
        if node not in seen:
            seen.add(node)
            todo += [(after, False) for after, _ in node.next_functions if after is not None]
    return list(first_nodes), list(inputs), list(gradients)


def _list_used(node: Any, span: Span) -> list[Any]:  # noqa: ANN401 - a node of autograd
    """Return the nodes that a module's span lists, or without a list those that its node uses,
    without those of parameters.
    """
    if span.inputs is not None:
        return span.inputs
    used = [before for before, _ in node.next_functions if before is not None]
    return [before for before in used if before._sequence_nr() != OF_PARAMETER]
