"""SyncBatchNorm's statistics, which each layer gathers from all ranks. A BatchNorm uses its own."""

import re
from collections.abc import Iterator

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import (
    choose_ops,
    free_calls,
    match_names,
    scale_delays,
    unblock_calls,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

_OWN = re.compile(r"batch_norm_(collect_statistics|backward_reduce)")
_USES = re.compile(r"batch_norm_(transform_input|backward_elemt)")
"""Kernels that make a rank's own statistics, and kernels that use those of all ranks:
https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/_functions.py"""
_FILL = re.compile(r"FillFunctor")
"""Semaphores of the kernels of _OWN are set to zero before these."""


def keep_own_statistics(graph: RunGraph, weights: Weights) -> Weights:
    """Each pass of a layer is one launch, the one that uses the statistics: nothing is packed, sent
    or read. The GPU still works on the own ones.
    """
    calls, nodes = find_statistics_calls(graph), graph.nodes
    stays = match_names(graph, _OWN)[graph.ops.name]
    ops = np.flatnonzero(np.isin(graph.ops.call, calls) & ~stays)
    weights = unblock_calls(graph, weights, calls).with_work(ops, 0)
    weights = scale_delays(graph, weights, np.r_[nodes.op_start[ops], nodes.op_end[ops]], 0.0)
    return free_calls(graph, weights, calls)


def describe_statistics_calls(graph: RunGraph) -> str:
    """Evidence of the statistics that go; "" without any."""
    calls, per_step = find_statistics_calls(graph), graph.steps * len(graph.ranks)
    count = np.isin(_find_sends(graph), calls).sum() / per_step
    if not count:
        return ""
    return (
        f"SyncBatchNorm gathers statistics of all ranks {count:.0f} times a step: the cost holds "
        f"the {len(calls) / per_step:.0f} calls that BatchNorm or GroupNorm does without"
    )


@once_each
def find_statistics_calls(graph: RunGraph) -> IntArray:
    """The calls of each pass of a SyncBatchNorm but the one that uses the statistics."""
    return np.concatenate([np.empty(0, np.int64), *_list_passes(graph)])


def _list_passes(graph: RunGraph) -> Iterator[IntArray]:
    """The calls from a rank's own statistics to their use, where a collective is among them."""
    thread, fills = graph.calls.thread, _find_launches(graph, _FILL)
    uses, sends = _find_launches(graph, _USES), _find_sends(graph)
    own = _find_launches(graph, _OWN)
    ends = np.r_[uses, len(thread)][np.searchsorted(uses, own, "right")]
    limits = np.minimum(ends, np.r_[own[1:], len(thread)])
    for begin, end in zip(own[ends == limits], ends[ends == limits], strict=True):
        is_sent = np.searchsorted(sends, begin) < np.searchsorted(sends, end)
        if is_sent and end < len(thread) and thread[begin] == thread[end]:
            yield np.arange(begin - np.isin(begin - 1, fills), end)


def _find_sends(graph: RunGraph) -> IntArray:
    """The calls that launch collectives, in order."""
    sends = choose_ops(graph) & (graph.ops.kind == COMMUNICATION) & (graph.ops.call != NONE)
    return np.unique(graph.ops.call[sends]).astype(np.int64)


def _find_launches(graph: RunGraph, pattern: re.Pattern[str]) -> IntArray:
    """The calls that launch kernels of this name, in order."""
    named = choose_ops(graph) & match_names(graph, pattern)[graph.ops.name]
    return np.unique(graph.ops.call[named & (graph.ops.call != NONE)]).astype(np.int64)
