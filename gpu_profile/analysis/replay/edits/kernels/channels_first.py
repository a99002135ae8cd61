"""The change in which images have their channels last, as tensor cores take them."""

import re

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops, skip_launches
from gpu_profile.analysis.replay.edits.kernels.unaligned_products import (
    mark_transposes,
    shorten_products,
)
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

NATIVE_NORM = re.compile(
    r"native::\S*batch_norm_(backward|collect_statistics|transform_input|backward_reduce"
    r"|backward_elemt)_kernel\b"
)
CUDNN_NORM = re.compile(r"\bbn_(bw|fw_\w+?)_1C11_")
DEPTHWISE = re.compile(r"\bconv_depthwise[23]d")
LEFT = {NATIVE_NORM: 0.35, CUDNN_NORM: 0.65, DEPTHWISE: 0.2}
"""The part of the time that is left with channels last, on an H200, of eleven networks of
torchvision and others: batch norms of PyTorch 0.24 to 0.50, those of cuDNN 0.38 to 0.71, and
depthwise convolutions of PyTorch 0.15 to 0.23."""
SPREAD = 1.4
"""The bounds take so many times as much, and as little."""
_FOLDED = re.compile(r"nchwToNhwcKernel<[^>]*(\(bool\)1|true), (\(bool\)1|true)")
MOST_FOLDED = 0.1
"""Of the transposes, those of grouped convolutions. RegNets of groups of 24 and 112 channels took
1.3 and 1.4 times as long with channels last."""


def is_norm(name: str) -> bool:
    """Whether a kernel is a batch norm whose channels are not last, by its full name."""
    return bool(NATIVE_NORM.search(name) or CUDNN_NORM.search(name))


def put_channels_last() -> Change:
    """No transposes of cuDNN; batch norms and depthwise convolutions are shorter. Without batch
    norms nothing is told: other norms are slower with channels last.
    """
    return Change(
        "images with channels first",
        _put_last(1.0),
        ("channels_first",),
        bounds=(_put_last(SPREAD), _put_last(1 / SPREAD)),
    )


def _put_last(times: float) -> Apply:
    def apply(graph: RunGraph, weights: Weights) -> Weights:
        chosen = choose_ops(graph) & (graph.ops.kind == COMPUTE)
        transposes = np.flatnonzero(chosen & mark_transposes(graph))
        left = _list_left(graph)
        rows = np.flatnonzero(chosen & (left < 1))
        has_norms = any(is_norm(graph.names[name]) for name in np.unique(graph.ops.name[rows]))
        if not len(transposes) or not has_norms or _folds_groups(graph):
            return weights
        shorter = np.minimum(left[rows] * times, 1.0) * weights.work[rows]
        weights = weights.with_work(rows, np.rint(shorter).astype(np.int64))
        weights = shorten_products(graph, weights, np.flatnonzero(chosen), times)
        weights = weights.with_work(transposes, np.zeros(len(transposes), np.int64))
        return skip_launches(graph, weights, transposes)

    return apply


def _list_left(graph: RunGraph) -> NDArray[np.float64]:
    """The part of each operation's time that is left."""
    left = [
        min((part for pattern, part in LEFT.items() if pattern.search(name)), default=1.0)
        for name in graph.names
    ]
    return np.array(left, np.float64)[graph.ops.name]


def _folds_groups(graph: RunGraph) -> bool:
    """Whether MOST_FOLDED of the transposes or more are of grouped convolutions."""
    is_folded = np.array([bool(_FOLDED.search(name)) for name in graph.names], bool)
    time, transposes = graph.ops.end - graph.ops.start, mark_transposes(graph)
    folded = time[transposes & is_folded[graph.ops.name]].sum()
    return float(folded) >= MOST_FOLDED * float(time[transposes].sum())
