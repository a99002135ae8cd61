"""Gradients that the ranks reduce in the backward pass of each micro-batch of an update, where the
last one's pass is enough: `no_sync()` of DDP, `set_requires_gradient_sync(False)` of FSDP2.
"""

import re

import numpy as np
from numpy.typing import NDArray

from gpu_profile.analysis.activity.activity import COMPUTE, COPY, COPY_TO_DEVICE
from gpu_profile.analysis.activity.idle.stalls import LONG_GAP_NS
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    choose_ops,
    find_edges,
    match_copies,
    match_names,
    scale_delays,
    shorten,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    comm_kind,
)

LEAST_BYTES = 65_536
"""Gradients have more: DDP's first bucket holds 1 MB. SyncBatchNorm's sums have some KB, and other
statistics of a backward pass too."""
_REDUCTIONS = (ALL_REDUCE, REDUCE_SCATTER)
_PACKS = re.compile(r"chunk_cat|split_with_sizes_copy")
"""FSDP2's kernels that pack gradients and unpack weights."""


def reduce_once(graph: RunGraph, weights: Weights) -> Weights:
    """Only the last micro-batch reduces gradients, and FSDP keeps the weights until it did: the
    other transfers are gone, with what packs their data and with the host's work for them.

    Pauses of LONG_GAP_NS stay: a batch may be loaded there.
    """
    ops = find_early_transfers(graph)
    nodes, calls = graph.nodes, np.unique(graph.ops.call[ops]).astype(np.int64)
    starts = nodes.call_start[calls]
    weights = weights.with_work(ops, 0)
    weights = scale_delays(graph, weights, np.r_[nodes.op_start[ops], nodes.op_end[ops]], 0.0)
    pause = np.where(weights.silent[calls] >= LONG_GAP_NS, weights.silent[calls], 0)
    weights = shorten(graph, weights, starts, np.maximum(weights.delay[starts] - pause, 0))
    weights = weights.with_lag(find_edges(graph, nodes.call_end[calls], Edge.CALL), 0)
    return scale_delays(graph, weights, nodes.call_end[calls], 0.0)


def describe_early_transfers(graph: RunGraph) -> str:
    """Evidence of the transfers that a fix spares; "" without any."""
    ops = find_early_transfers(graph)
    kind = _find_kinds(graph)[graph.ops.name[ops]]
    per_step = graph.steps * len(graph.ranks)
    counts = [np.isin(kind, kinds).sum() / per_step for kinds in (_REDUCTIONS, (ALL_GATHER,))]
    if not counts[0]:
        return ""
    gathers = f", and {counts[1]:.0f} times weights gathered for them," if counts[1] else ""
    return (
        "gradients are reduced in each micro-batch of an update: the cost is that of all but the "
        f"last one's, {counts[0]:.0f} reductions a step{gathers} with the launches that they need. "
        "no_sync() of DDP spares them, set_requires_gradient_sync(False) of FSDP2 and, for the "
        "weights, set_reshard_after_backward(False)"
    )


@once_each
def find_early_transfers(graph: RunGraph) -> IntArray:
    """The reductions of all micro-batches but the last one of each step, the weights that are
    gathered for the forward passes between them, and what packs both.
    """
    parts = [_find_in_step(graph, rows) for rows in _list_launched(graph)]
    transfers = np.concatenate([np.empty(0, np.int64), *parts])
    return _add_packing(graph, transfers) if len(transfers) else transfers


def _list_launched(graph: RunGraph) -> list[IntArray]:
    """The operations of each rank and step in the order of their launches."""
    ops = graph.ops
    rows = np.flatnonzero(choose_ops(graph) & (ops.call != NONE))
    part = graph.op_rank[rows].astype(np.int64) * graph.steps + ops.step[rows]
    order = np.lexsort((graph.calls.start[ops.call[rows]], part))
    return np.split(rows[order], np.flatnonzero(np.diff(part[order])) + 1) if len(rows) else []


def _find_in_step(graph: RunGraph, rows: IntArray) -> IntArray:
    """The early reductions and gathers of a step, by its operations in the order of launches.

    Autograd's thread launches equal reductions in each backward pass, and the main thread a forward
    pass before each; the optimizer's kernels come after the last one only.
    """
    ops, place = graph.ops, np.arange(len(rows))
    kind = _find_kinds(graph)[ops.name[rows]]
    is_large = (ops.bytes[rows] == 0) | (ops.bytes[rows] >= LEAST_BYTES)
    thread = graph.calls.thread[ops.call[rows]]
    is_main = thread == thread[-1]
    reductions = np.flatnonzero(is_large & np.isin(kind, _REDUCTIONS))
    length = _find_period(graph, rows[reductions])
    if not length or is_main[reductions].any():
        return rows[:0]
    first, last = reductions[::length], reductions[length - 1 :: length]
    forwards = np.diff(np.r_[0, np.cumsum(is_main)][np.stack((last[:-1], first[1:]))], axis=0)
    is_between = is_main & (place > last[0]) & (place < last[-1])
    updates = np.setdiff1d(ops.name[rows[is_main & (place > last[-1])]], ops.name[rows[is_between]])
    if not forwards.all() or not len(updates):
        return rows[:0]
    gathers = is_between & is_large & (kind == ALL_GATHER)
    is_sharded = (kind[reductions] == REDUCE_SCATTER).any()
    return np.asarray(np.r_[rows[reductions[:-length]], rows[gathers & is_sharded]], np.int64)


def _find_period(graph: RunGraph, ops: IntArray) -> int:
    """After how many of these operations they repeat to the end; 0 where they do not."""
    keys = np.stack([column[ops] for column in (graph.ops.name, graph.ops.bytes, graph.ops.grid)])
    lengths = (length for length in range(1, len(ops) // 2 + 1) if len(ops) % length == 0)
    return next((n for n in lengths if (keys[:, n:] == keys[:, :-n]).all()), 0)


def _add_packing(graph: RunGraph, transfers: IntArray) -> IntArray:
    """The transfers with what stands in a row of launches before them, or after gathers: work on
    side streams, and the kernels of _PACKS with the copy of pointers before each.

    After a reduction each rank adds its part of the gradients to the sum. A fix adds, too.
    """
    ops, calls = graph.ops, graph.calls
    launched = ops.call != NONE
    launches = np.unique(ops.call[launched]).astype(np.int64)

    def mark(chosen: Flags) -> Flags:
        return np.asarray(np.isin(launches, ops.call[launched & chosen]), np.bool_)

    is_gone = np.isin(launches, ops.call[transfers])
    is_gather = is_gone & mark((_find_kinds(graph) == ALL_GATHER)[ops.name])
    is_named = mark(match_names(graph, _PACKS)[ops.name])
    is_copy = mark((ops.kind == COPY) & match_copies(graph, COPY_TO_DEVICE))
    in_row = is_named | mark(_mark_side_work(graph)) | (is_copy & np.r_[is_named[1:], False])
    in_row |= is_gone
    changes = (np.diff(in_row) != 0) | (np.diff(calls.thread[launches]) != 0)
    row, number = np.cumsum(np.r_[0, changes]), np.arange(len(launches))
    last, first_gather = np.full(row[-1] + 1, NONE), np.full(row[-1] + 1, len(launches))
    np.maximum.at(last, row[is_gone], number[is_gone])
    np.minimum.at(first_gather, row[is_gather], number[is_gather])
    goes = in_row & ((number <= last[row]) | (number > first_gather[row]))
    return np.flatnonzero(launched & np.isin(ops.call, launches[goes]))


def _mark_side_work(graph: RunGraph) -> Flags:
    """A mask of the kernels that run on another stream than most of their rank's do."""
    ops = graph.ops
    is_compute = ops.kind == COMPUTE
    counts = np.bincount(ops.stream[is_compute], minlength=int(ops.stream.max()) + 1)
    side = np.zeros(len(ops.start), bool)
    for rank in range(len(graph.ranks)):
        of_rank = is_compute & (graph.op_rank == rank)
        streams = np.unique(ops.stream[of_rank])
        if len(streams):
            main = streams[np.argmax(counts[streams])]
            side |= of_rank & (ops.stream != main)
    return side


@once_each
def _find_kinds(graph: RunGraph) -> NDArray[np.str_]:
    """The kind of communication by the number of a name."""
    return np.array([comm_kind(name) for name in graph.names], np.str_)
