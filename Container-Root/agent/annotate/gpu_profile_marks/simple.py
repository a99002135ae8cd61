"""Modules whose nodes of autograd need no search. Python 3.8, stdlib only.

A simple module has no modules inside and one output, and its nodes use its arguments and its own
parameters only. The search finds that out where the module makes another number of nodes than
before, as it does where autocast has kept the casts of its weights.
"""

from __future__ import annotations

from typing import Any

from gpu_profile_marks.graph import find_node


def is_simple(
    module: Any,  # noqa: ANN401 - a torch.nn.Module
    arguments: Any,  # noqa: ANN401 - torch
    output: Any,  # noqa: ANN401 - torch
    kind: type,
    found: tuple[list[Any], list[Any], list[Any]],
) -> bool:
    """Return whether a module is simple, by what a search found: first nodes, those of others, and
    AccumulateGrads. `kind` is torch.Tensor.
    """
    first_nodes, inputs, gradients = found
    if module._modules or not isinstance(output, kind) or first_nodes != [find_node(output)]:
        return False
    own = {id(parameter) for parameter in module._parameters.values()}
    return set(inputs) == set(list_inputs(arguments, kind)) and all(
        id(getattr(node, "variable", None)) in own for node in gradients
    )


def list_inputs(arguments: Any, kind: type) -> list[Any]:  # noqa: ANN401 - torch
    """Return the nodes that made the arguments of a forward."""
    nodes = [find_node(each) for each in arguments if isinstance(each, kind)]
    return [node for node in nodes if node is not None]


def has_gradient(module: Any) -> bool:  # noqa: ANN401 - a torch.nn.Module
    """Return whether a parameter of the module itself has a gradient."""
    for parameter in module._parameters.values():
        if parameter is not None and parameter.grad is not None:
            return True
    return False
