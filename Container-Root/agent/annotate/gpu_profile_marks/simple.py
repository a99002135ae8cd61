"""Modules whose nodes of autograd need no search. Python 3.8, stdlib only.

The nodes of a simple module use its arguments, what modules inside it made, and its own parameters.
A search finds that out, and the places of its first nodes, where the module makes another number of
nodes than before, as it does where autocast has kept the casts of its weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_profile_marks.graph import find_node, list_tensors

if TYPE_CHECKING:
    from gpu_profile_marks.graph import Span


def is_simple(
    module: Any,  # noqa: ANN401 - a torch.nn.Module
    arguments: Any,  # noqa: ANN401 - torch
    kind: type,
    part: tuple[list[Any], list[Any], list[Any]],
) -> bool:
    """Return whether a module is simple, by its part of the graph: first nodes, those of others,
    and AccumulateGrads. `kind` is torch.Tensor.
    """
    _, inputs, gradients = part
    parameters = {id(parameter) for parameter in module._parameters.values()}
    return set(inputs) == set(list_inputs(arguments, kind)) and all(
        id(getattr(node, "variable", None)) in parameters for node in gradients
    )


def find_known(
    output: Any,  # noqa: ANN401 - torch
    kind: type,
    start: int,
    inner: list[Span],
    offsets: set[int],
) -> list[Any]:
    """Return the nodes with these numbers, counted from `start`; [] if one is missing.

    Only nodes of the output, and those that modules inside use, can be first nodes.
    """
    nodes = [find_node(tensor) for tensor in list_tensors(output, kind)]
    for span in inner:
        nodes += span.inputs or ()
    first: dict[int, Any] = {}
    for node in nodes:
        if node is not None:
            offset = node._sequence_nr() - start
            if offset in offsets:
                first[offset] = node
    return list(first.values()) if len(first) == len(offsets) else []


def list_inputs(arguments: Any, kind: type) -> list[Any]:  # noqa: ANN401 - torch
    """Return the nodes that made the arguments of a forward."""
    nodes = [find_node(each) for each in arguments if isinstance(each, kind)]
    return [node for node in nodes if node is not None]
