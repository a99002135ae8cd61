"""Kernels that are a part of others: which are small enough, what they save, and what they use."""

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, COPY_ON_DEVICE, SET
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import choose_ops, match_copies, scale_delays
from gpu_profile.analysis.replay.edits.calls import LATE_NS
from gpu_profile.analysis.replay.edits.loops.narrow_kernels import (
    NARROW_NS,
    TINY_NS,
    is_product,
    measure_share,
)
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

EMPTY_NS = 700
"""A kernel takes as long whatever it does: the shortest ones of 50 programs take 0.67 to 0.99 us
(H100, H200)."""


def mark_tiny(graph: RunGraph, is_batched: bool = True) -> Flags:
    """A mask of the small kernels, fills and copies in the GPU's memory: in a batch narrow kernels
    are small, too. PyTorch copies what is contiguous without a kernel.
    """
    ops = graph.ops
    duration = ops.end - ops.start
    tiny = duration < TINY_NS
    if is_batched:
        tiny |= (duration < NARROW_NS) & (duration * measure_shares(graph) < TINY_NS)
    works = np.isin(ops.kind, (COMPUTE, SET)) | match_copies(graph, COPY_ON_DEVICE)
    return np.asarray(choose_ops(graph) & tiny & works, np.bool_)


def fuse_kernels(
    graph: RunGraph, weights: Weights, ops: IntArray, share: NDArray[np.float64] | float = 1.0
) -> Weights:
    """These kernels are a part of the ones before them, and take their `share` of the GPU."""
    work = np.maximum(weights.work[ops] - EMPTY_NS, 0) * share
    weights = weights.with_work(ops, np.rint(work).astype(np.int64))
    starts = graph.nodes.op_start[ops]
    return scale_delays(graph, weights, starts[weights.delay[starts] < LATE_NS], 0.0)


@once_each
def measure_shares(graph: RunGraph) -> NDArray[np.float64]:
    """The part of its GPU that each operation can use, by its blocks and their threads; 1 where its
    blocks are unknown.
    """
    multiprocessors = np.array([rank.multiprocessors for rank in graph.ranks])[graph.op_rank]
    multiplies = np.array([is_product(name) for name in graph.names], bool)[graph.ops.name]
    return measure_share(graph.ops.blocks, graph.ops.threads, multiplies, multiprocessors)
