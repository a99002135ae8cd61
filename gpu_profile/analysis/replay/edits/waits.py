"""Changes of calls that wait for the GPU, and of the copies that they wait for."""

import re
from collections.abc import Sequence

import numpy as np

from gpu_profile.analysis.activity.activity import (
    COMPUTE,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    SET,
    SYNC_NAME,
)
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.changes import (
    Apply,
    choose_calls,
    choose_ops,
    find_edges,
    find_staged_copies,
    match_copies,
    match_names,
    match_small_copies,
    scale_delays,
    shorten,
    unblock_calls,
)
from gpu_profile.analysis.replay.edits.calls import LATE_NS
from gpu_profile.analysis.replay.edits.loops.launch_rows import LEAST_ROW, LaunchRows
from gpu_profile.analysis.replay.edits.loops.read_loops import (
    describe_read_loops,
    describe_write_loops,
    fuse_read_loops,
    fuse_write_loops,
)
from gpu_profile.analysis.replay.edits.loops.round_trips import (
    describe_round_trips,
    skip_round_trips,
)
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

TRUTH_BYTES = 1
"""Of a truth value: a loss, a count or an index has two or more."""
DATA_BYTES, DATA_PART = 1_000_000, 0.5
"""From which size on a copy is data that the host works on, and the part of the time in waits that
such copies take. A reactor's neutrons are 34 MB; a loss has 4 bytes, and a token of each of 1,000
requests 8 kB."""
_JOINS = re.compile(r"reduce_kernel<.*(and|or)_kernel_cuda")
_COMPARES = re.compile(r"[cC]ompare")


def remove_waits(ranks: Sequence[int] = ()) -> Apply:
    """Calls that wait for the GPU return at once. Large copies of pageable memory still wait: that
    is pin_copies().

    A call that only waits is gone, and so are the small copy to the host that it waits for and the
    kernel of a test: the host takes no time for them, and less for the work before them. What a
    loop launches for each of its reads, or of its small copies to the GPU, is fused. What the host
    makes of a value that it read, and copies back, takes no time. Of a row of reads one stays.
    """

    def apply(graph: RunGraph, weights: Weights) -> Weights:
        only_wait = match_names(graph, SYNC_NAME)[graph.calls.name]
        chosen = _mark_waits(graph, ranks)
        weights = unblock_calls(graph, weights, np.flatnonzero(chosen))
        copies = _find_awaited_copies(graph, chosen, COPY_TO_HOST)
        written = _find_awaited_copies(graph, chosen, COPY_TO_DEVICE)
        tests = _find_tests(graph, copies)
        unread = np.r_[copies, tests]
        issuing = graph.ops.call[unread].astype(np.int64)
        only_wait[issuing] = chosen[issuing] = True
        weights = fuse_read_loops(graph, _drop_operations(graph, weights, unread), copies, tests)
        weights = fuse_write_loops(graph, weights, written)
        weights = skip_round_trips(graph, weights)
        return _drop_calls(graph, weights, np.flatnonzero(only_wait & chosen))

    return apply


def awaits_data(graph: RunGraph) -> bool:
    """Whether DATA_PART of the time in calls that wait is for copies of DATA_BYTES or more to the
    host, which computes something of them.
    """
    calls, ops, nodes = graph.calls, graph.ops, graph.nodes
    large = choose_ops(graph) & match_copies(graph, COPY_TO_HOST) & (ops.bytes >= DATA_BYTES)
    edges = find_edges(graph, nodes.call_end[_mark_waits(graph)], Edge.RETURN)
    awaited = np.isin(graph.edges.source[edges], nodes.op_end[large])
    waits = np.isin(nodes.call_end, graph.edges.target[edges])
    of_data = np.isin(nodes.call_end, graph.edges.target[edges[awaited]])
    time = calls.end - calls.start
    return bool(time[of_data].sum() > DATA_PART * time[waits].sum())


def describe_waits(graph: RunGraph) -> str:
    """Evidence of what goes with the waits; "" without any."""
    waits = _mark_waits(graph)
    copies = _find_awaited_copies(graph, waits, COPY_TO_HOST)
    lines = (
        _describe_rows(graph),
        describe_read_loops(graph, copies, _find_tests(graph, copies)),
        describe_write_loops(graph, _find_awaited_copies(graph, waits, COPY_TO_DEVICE)),
        describe_round_trips(graph),
    )
    return "; ".join(line for line in lines if line)


def _mark_waits(graph: RunGraph, ranks: Sequence[int] = ()) -> Flags:
    """A mask of the calls that wait, but for copies that the driver stages, and one read of each
    row.
    """
    only_wait = match_names(graph, SYNC_NAME)[graph.calls.name]
    chosen = choose_calls(graph, ranks) & (only_wait | graph.calls.waits)
    chosen[graph.ops.call[find_staged_copies(graph, ranks)]] = False
    rows = _find_read_rows(graph, chosen)
    first = rows.calls[~rows.mark_later()]
    next_call = np.minimum(first + 1, len(chosen) - 1)
    chosen[first] = chosen[next_call[only_wait[next_call]]] = False
    return chosen


def _find_read_rows(graph: RunGraph, waits: Flags) -> LaunchRows:
    """The rows of LEAST_ROW reads or more of a step with no other launch between: the program works
    on values that it could read at once.
    """
    call, calls = graph.ops.call, graph.calls
    reads = np.unique(call[_find_awaited_copies(graph, waits, COPY_TO_HOST)]).astype(np.int64)
    if len(reads) < LEAST_ROW:
        return LaunchRows(reads[:0], reads[:0])
    launches = np.zeros(len(calls.start), bool)
    launches[call[call != NONE]] = True
    changes = np.diff(np.cumsum(launches)[reads]) != 1
    changes |= (np.diff(calls.thread[reads]) != 0) | (np.diff(calls.step[reads]) != 0)
    row = np.cumsum(np.r_[False, changes])
    is_long = np.bincount(row)[row] >= LEAST_ROW
    return LaunchRows(reads[is_long], row[is_long])


def _describe_rows(graph: RunGraph) -> str:
    """Evidence of the reads in rows; "" without any."""
    only_wait = match_names(graph, SYNC_NAME)[graph.calls.name]
    count = len(_find_read_rows(graph, only_wait | graph.calls.waits).calls) / graph.steps
    if not count:
        return ""
    return (
        f"{count:.0f} values a step are read one after the other, with nothing launched between: "
        "the cost is what one read of all of them gains"
    )


def _find_awaited_copies(graph: RunGraph, waits: Flags, copy_kind: int) -> IntArray:
    """The small copies of this direction for which one of these calls waits: the one that copies,
    or the next one of its thread, as in .item().
    """
    ops, thread = graph.ops, graph.calls.thread
    copies = np.flatnonzero(match_small_copies(graph, copy_kind))
    call = ops.call[copies].astype(np.int64)
    next_call = np.minimum(call + 1, len(thread) - 1)
    is_awaited = waits[call] | (waits[next_call] & (thread[next_call] == thread[call]))
    return np.asarray(copies[is_awaited], np.int64)


def _find_tests(graph: RunGraph, copies: IntArray) -> IntArray:
    """The kernels that make a truth value for one of these copies, right before it: what
    `if x.isnan().any()` asks for, nothing else reads. Of one that joins many truth values, those
    that compare go, too, and the fill of memory between.
    """
    ops = graph.ops
    call = ops.call[copies[ops.bytes[copies] == TRUTH_BYTES]].astype(np.int64)
    if not len(call):
        return np.empty(0, np.int64)
    before = _step_back(graph, call, ops.kind == COMPUTE)
    joins = match_names(graph, _JOINS)[ops.name]
    fills = _step_back(graph, _pick(graph, before, joins), ops.kind == SET)
    joined = np.union1d(_pick(graph, before, joins), fills)
    compared = _step_back(graph, joined, match_names(graph, _COMPARES)[ops.name])
    gone = np.concatenate((before, fills, compared))
    return np.flatnonzero(choose_ops(graph) & (ops.call != NONE) & np.isin(ops.call, gone))


def _step_back(graph: RunGraph, calls: IntArray, chosen: Flags) -> IntArray:
    """The calls right before these on their threads that launch one of the `chosen` operations, and
    nothing else.
    """
    thread = graph.calls.thread
    before = calls[calls > 0] - 1
    return _pick(graph, before[thread[before] == thread[before + 1]], chosen)


def _pick(graph: RunGraph, calls: IntArray, chosen: Flags) -> IntArray:
    """Those of these calls that launch one of the `chosen` operations, and nothing else."""
    launched = np.flatnonzero(choose_ops(graph) & (graph.ops.call != NONE))
    of_call = graph.ops.call[launched]
    count = np.bincount(of_call, minlength=len(graph.calls.thread))
    of_chosen = np.bincount(of_call[chosen[launched]], minlength=len(graph.calls.thread))
    return np.asarray(calls[(count[calls] == 1) & (of_chosen[calls] == 1)], np.int64)


def _drop_calls(graph: RunGraph, weights: Weights, calls: IntArray) -> Weights:
    """The host does not make these calls. Of its work before each it is spared as much as is usual
    before a launch; the rest belongs to what the program did before.
    """
    nodes = graph.nodes
    starts = nodes.call_start[calls]
    work = np.maximum(weights.delay[starts] - weights.silent[calls], 0)
    weights = shorten(graph, weights, starts, np.minimum(work, _measure_issue(graph, weights)))
    weights = weights.with_lag(find_edges(graph, nodes.call_end[calls], Edge.CALL), 0)
    return scale_delays(graph, weights, nodes.call_end[calls], 0.0)


def _drop_operations(graph: RunGraph, weights: Weights, ops: IntArray) -> Weights:
    """The GPU does not run these operations, and spares the usual time before each, too: 4 to 7 us
    from a kernel to a copy of pageable memory (H200).
    """
    starts = graph.nodes.op_start[ops]
    weights = weights.with_work(ops, 0)
    return scale_delays(graph, weights, starts[weights.delay[starts] < LATE_NS], 0.0)


def _measure_issue(graph: RunGraph, weights: Weights) -> int:
    """The host's usual work (ns) before a call that launches."""
    launches = np.unique(graph.ops.call[graph.ops.call != NONE]).astype(np.int64)
    starts = graph.nodes.call_start[launches]
    work = np.maximum(weights.delay[starts] - weights.silent[launches], 0)[graph.has_source[starts]]
    return int(np.median(work)) if len(work) else 0
