"""Matrix products of a 16-bit program that are computed in fp32, between casts.

Diffusers call it upcast_attention. Between the products of a layer in bfloat16, queries and keys
are cast to fp32, multiplied, and the scores cast back.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.peaks import BF16, FP16, FP32, find_format
from gpu_profile.analysis.replay.changes import choose_ops
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.tables.kernel_class import classify_kernel

LEAST_CASTS = 3
"""Of two operands and a result, or backward of a gradient and of the gradients of both. A layer
with weights in fp32 has one on each side, and may need them so."""
_OTHER, _SCALAR, _HALF, _PRODUCT, _CAST = range(5)
"""What a kernel is: a product in fp32, in 16 bits or in another format, a cast, or none of them."""


@dataclass(frozen=True, eq=False)
class Upcasts:
    """The rows of the fp32 `products`, of the `casts` around them, and of all `others` between."""

    products: IntArray
    casts: IntArray
    others: IntArray


def is_cast(name: str) -> bool:
    """Whether a kernel of PyTorch writes another format than it reads, by its full name."""
    if "float16_copy_kernel" in name:
        return True
    return "direct_copy_kernel" in name and ("LoadWithCast" in name or "gpu_kernel_impl<" in name)


def _find_kind(name: str) -> int:
    if is_cast(name):
        return _CAST
    if classify_kernel(name) not in ("GEMM", "attention"):
        return _OTHER
    return {FP32: _SCALAR, FP16: _HALF, BF16: _HALF}.get(find_format(name), _PRODUCT)


@once_each
def find_upcasts(graph: RunGraph, of_attention: bool = False) -> Upcasts:
    """The fp32 products between others in 16 bits, with LEAST_CASTS casts before the first of them
    and after the last; `of_attention`: with a softmax there, too.
    """
    kinds = np.array([_find_kind(name) for name in graph.names], np.int8)
    places = np.empty(0, np.int64)
    if not {_SCALAR, _HALF, _CAST} <= {*kinds.tolist()}:
        return Upcasts(places, places, places)
    rows = np.flatnonzero(choose_ops(graph) & (graph.ops.kind == COMPUTE))
    rows = rows[np.lexsort((graph.ops.start[rows], graph.ops.stream[rows]))]
    kind, stream = kinds[graph.ops.name[rows]], graph.ops.stream[rows]
    is_softmax = np.array(["softmax" in name.lower() for name in graph.names])[graph.ops.name[rows]]
    parts = [
        np.arange(first, stop)
        for first, stop in _list_parts(kind, stream)
        if not of_attention or is_softmax[first:stop].any()
    ]
    places = np.concatenate([places, *parts])
    return Upcasts(*(rows[places[kind[places] == each]] for each in (_SCALAR, _CAST, _OTHER)))


def _list_parts(kind: NDArray[np.int8], stream: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """The kernels from the first cast to the last one of each group of such products."""
    casts = np.flatnonzero(kind == _CAST)
    products = np.flatnonzero((kind == _SCALAR) | (kind == _HALF) | (kind == _PRODUCT))
    scalar = (kind[products] == _SCALAR).astype(np.int8)
    edges = np.flatnonzero(np.diff(scalar))  # from the last product before a group, or of it
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        before, first, last, after = products[[begin, begin + 1, end, end + 1]].tolist()
        is_group = scalar[begin + 1] and kind[before] == _HALF and kind[after] == _HALF
        if not is_group or stream[before] != stream[after]:
            continue
        feeding = casts[slice(*np.searchsorted(casts, (before, first)))]
        leaving = casts[slice(*np.searchsorted(casts, (last, after)))]
        has_both = len(feeding) and len(leaving)
        if has_both and len(feeding) + len(leaving) >= LEAST_CASTS:
            yield int(feeding[0]), int(leaving[-1]) + 1
