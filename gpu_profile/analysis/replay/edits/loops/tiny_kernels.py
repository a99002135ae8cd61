"""The change in which the tiny kernels of a loop are one kernel: fused, or batched."""

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.modules.marks import OPTIMIZER
from gpu_profile.analysis.replay.changes import Apply, Change, choose_ops, free_calls, shorten
from gpu_profile.analysis.replay.edits.loops.copy_loops import (
    MOST_LONG,
    describe_copy_loops,
    find_copy_loops,
    run_copy_loops_once,
)
from gpu_profile.analysis.replay.edits.loops.fused_kernels import (
    fuse_kernels,
    mark_tiny,
    measure_shares,
)
from gpu_profile.analysis.replay.edits.loops.launch_rows import (
    LEAST_ROW,
    LaunchRows,
    find_launch_rows,
)
from gpu_profile.analysis.replay.edits.loops.narrow_kernels import NARROW_NS, TINY_NS
from gpu_profile.analysis.replay.edits.loops.network_calls import mark_layers
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights


def join_tiny_kernels() -> Change:
    """The kernels of a row are one that fills the GPU, as a batch of the loop's passes does. At the
    least they are fused, and each takes the multiprocessors that it takes now: passes that need
    each other cannot run side by side.
    """
    batched = _join_rows(is_batched=True)
    return Change(
        "launches of tiny kernels",
        batched,
        ("tiny_kernels",),
        is_bound=True,
        describe=_describe_rows,
        bounds=(_join_rows(is_batched=False), batched),
        parts=(
            ("loops in the optimizer", _join_rows(is_batched=True, of_optimizer=True)),
            ("loops elsewhere", _join_rows(is_batched=True, of_optimizer=False)),
        ),
    )


def _join_rows(is_batched: bool, of_optimizer: bool | None = None) -> Apply:
    """Small kernels and fills of memory in a row: their launches take no time, and the first of a
    row alone takes EMPTY_NS to begin and end. Batched, the others take their part of the GPU, and
    a loop of passes keeps one launch of each kernel. A loop that copies in each pass has one left.
    `of_optimizer`: only the rows in the optimizer, or only the others; None for all.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        if not of_optimizer:
            weights = run_copy_loops_once(graph, weights, is_batched)
        rows = find_tiny_rows(graph, is_batched)
        if of_optimizer is not None:
            rows = rows.keep(_mark_optimizer(graph)[rows.calls] == of_optimizer)
        return join_rows(graph, weights, rows, is_batched)

    return apply


def join_rows(
    graph: RunGraph, weights: Weights, rows: LaunchRows, is_batched: bool = True
) -> Weights:
    """Each of these rows is one kernel, or one pass of its loop if it `is_batched`."""
    gone = ~rows.mark_batches(graph) if is_batched else np.ones(len(rows.calls), bool)
    joined = _list_launched(graph, rows.calls[rows.mark_later() & gone])
    share = measure_shares(graph)[joined] if is_batched else 1.0
    weights = fuse_kernels(graph, weights, joined, share)
    paused = rows.list_short_pauses(graph, weights)
    weights = free_calls(graph, weights, rows.calls[gone & ~graph.calls.waits[rows.calls]])
    return shorten(graph, weights, graph.nodes.call_start[paused], weights.silent[paused])


def find_tiny_rows(graph: RunGraph, is_batched: bool = True) -> LaunchRows:
    """The rows of calls that launch small kernels, fills and copies, and are in no loop with copies
    from the host. Layers of a network that is called several times are no loop.
    """
    in_loop = np.isin(graph.ops.call, find_copy_loops(graph).rows.calls)
    tiny = mark_tiny(graph, is_batched) & ~in_loop
    if is_batched:
        tiny |= _mark_long_parts(graph, tiny) & ~in_loop
    rows = find_launch_rows(graph, tiny).keep_main_loop(graph)
    return rows.keep(~mark_layers(graph, rows))


def _mark_long_parts(graph: RunGraph, tiny: Flags) -> Flags:
    """A mask of the long kernels among `tiny` ones of a loop, few of its launches, that are tiny on
    all of the GPU: each pass factorizes a matrix, and a batch all of them at once.
    """
    ops = graph.ops
    duration = ops.end - ops.start
    long = choose_ops(graph) & (ops.kind == COMPUTE) & (duration >= NARROW_NS)
    long = np.asarray(long & (duration * measure_shares(graph) < TINY_NS), np.bool_)
    if not long.any():
        return long
    rows = find_launch_rows(graph, tiny | long)
    count = np.bincount(rows.part, np.isin(rows.calls, ops.call[long]))
    launches = np.bincount(rows.part)
    are_parts = (count >= LEAST_ROW) & (count <= MOST_LONG * launches)
    return np.asarray(long & np.isin(ops.call, rows.calls[are_parts[rows.part]]), np.bool_)


def _mark_optimizer(graph: RunGraph) -> Flags:
    """A mask of the calls in the range of an optimizer."""
    is_optimizer = np.array([place.split(" ")[0] == OPTIMIZER for place in graph.places], np.bool_)
    return np.asarray(is_optimizer[graph.calls.place], np.bool_)


@once_each
def launches_loops(graph: RunGraph) -> bool:
    """Whether most tiny kernels in rows are of loops, which a program can batch."""
    looped = np.unique(graph.ops.call[np.isin(graph.ops.call, find_copy_loops(graph).rows.calls)])
    rows = find_tiny_rows(graph)
    return len(looped) > len(rows.calls) or rows.are_loops(graph)


def _list_launched(graph: RunGraph, calls: IntArray) -> IntArray:
    """The operations that these calls launch."""
    launches = np.zeros(len(graph.calls.start) + 1, bool)  # the last cell is of NONE (-1)
    launches[calls] = True
    return np.flatnonzero(graph.live & launches[graph.ops.call])


def _describe_rows(graph: RunGraph) -> str:
    """Evidence of what a batch does besides; "" for nothing."""
    lines = describe_copy_loops(graph), _describe_narrow_kernels(graph)
    return "; ".join(line for line in lines if line)


def _describe_narrow_kernels(graph: RunGraph) -> str:
    """Evidence of the kernels that a batch runs side by side; "" without any."""
    rows = find_tiny_rows(graph)
    joined = _list_launched(graph, rows.calls[rows.mark_later()])
    narrow = joined[measure_shares(graph)[joined] < 1]
    if not len(narrow):
        return ""
    count = len(narrow) / graph.steps
    return (
        f"{count:.0f} kernels a step in rows have too few threads for the GPU's "
        f"{graph.ranks[0].multiprocessors} multiprocessors: the cost is that of a batch, in which "
        f"they run side by side. At the least, those under {TINY_NS / 1e3:.0f} us are one kernel "
        "that does them one after the other, as passes that need each other have to"
    )
