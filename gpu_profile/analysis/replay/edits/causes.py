"""The causes of lost time that a plan tries to remove."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpu_profile.analysis.replay.changes import Change, combine
from gpu_profile.analysis.replay.edits.calls import (
    free_host,
    free_launches,
    pin_copies,
    remove_allocations,
)
from gpu_profile.analysis.replay.edits.early_copies import copy_early
from gpu_profile.analysis.replay.edits.gpu_work import balance_compute, scale_communication
from gpu_profile.analysis.replay.edits.graph_captures import waits_in_captures
from gpu_profile.analysis.replay.edits.host_work import (
    describe_left_pauses,
    describe_pauses,
    remove_host_work,
    remove_told_pauses,
)
from gpu_profile.analysis.replay.edits.kernels.small_grids import spread_small_grids
from gpu_profile.analysis.replay.edits.loops.network_calls import (
    batch_network,
    describe_network_calls,
    find_network_calls,
)
from gpu_profile.analysis.replay.edits.loops.repeated_calls import (
    call_once,
    describe_repeated_calls,
    find_repeated_calls,
)
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import join_tiny_kernels
from gpu_profile.analysis.replay.edits.made_copies import (
    describe_made_copies,
    drop_made_copies,
    find_made_copies,
)
from gpu_profile.analysis.replay.edits.micro_batches import (
    describe_early_transfers,
    find_early_transfers,
    reduce_once,
)
from gpu_profile.analysis.replay.edits.moved_state import (
    describe_moved_state,
    keep_batch_memory,
    leave_state,
)
from gpu_profile.analysis.replay.edits.offloaded_state import describe_state_work, skip_state_work
from gpu_profile.analysis.replay.edits.synced_norms import (
    describe_statistics_calls,
    keep_own_statistics,
)
from gpu_profile.analysis.replay.edits.waits import describe_waits, remove_waits
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

PAGEABLE_COPIES = Change(
    "pageable copies",
    combine((pin_copies(), keep_batch_memory, leave_state, skip_state_work)),
    ("pageable_copy",),
    describe=lambda graph: describe_moved_state(graph) or describe_state_work(graph),
)
EARLY_COPIES = Change("copies in the kernels' stream", copy_early, ("exposed_copy",))
ALLOCATIONS = Change("memory allocations", remove_allocations(), ("allocation",))


def _join_evidence(*describe: Callable[[RunGraph], str]) -> Callable[[RunGraph], str]:
    """What all of these say of a run, but those that say nothing of it."""
    return lambda graph: "; ".join(filter(None, (each(graph) for each in describe)))


WAITS = Change(
    "waits for the GPU",
    combine((keep_own_statistics, remove_waits())),
    ("synchronization",),
    describe=_join_evidence(describe_waits, describe_statistics_calls),
)
"""SyncBatchNorm's forward pass reads what its ranks sent: without one there is no other."""


def _pin_made_copies(graph: RunGraph, weights: Weights) -> Weights:
    """Without what the host makes and copies, nothing changes: then this is no other fix."""
    return PAGEABLE_COPIES.apply(graph, weights) if len(find_made_copies(graph)) else weights


PAUSES = Change(
    "host pauses",
    combine((remove_host_work, drop_made_copies)),
    ("idle", "compile", "cpu_straggler"),
    describe=_join_evidence(describe_pauses, describe_made_copies),
    other_fix=("work that stays on the host, but fills pinned memory", _pin_made_copies),
)
LONE_PAUSES = Change(
    "host pauses alone", remove_told_pauses, PAUSES.kinds, describe=describe_left_pauses
)
"""Without copies: what loads data, compiles or is late works on nothing that came from the GPU."""
TINY_LAUNCHES = replace(
    join_tiny_kernels(),
    other_fix=("a CUDA graph of all launches, also where passes need each other", free_launches()),
)
_GRIDS = spread_small_grids()


def _spread_or_batch(graph: RunGraph, weights: Weights) -> Weights:
    """A batch gives the kernels of a network with calls in a row more blocks, and takes launches
    away; other kernels are spread.
    """
    network = find_network_calls(graph)
    spread = _GRIDS.apply(graph, weights)
    if not network.in_row:
        return spread
    ops = np.flatnonzero(np.isin(graph.ops.call, network.launches))
    return batch_network(graph, spread.with_work(ops, weights.work[ops]))


SMALL_GRIDS = replace(_GRIDS, apply=_spread_or_batch, describe=describe_network_calls)


def _launch_less(graph: RunGraph, weights: Weights) -> Weights:
    """Launch a CUDA graph, or call a model once that is called several times in a row."""
    change = call_once if len(find_repeated_calls(graph)) else free_launches()
    return change(graph, weights)


def _list_capture_ends(graph: RunGraph) -> tuple[str, ...]:
    """A wait ends the capture of a CUDA graph, with an error, and so does cudaMalloc."""
    waits = (WAITS.text,) if waits_in_captures(graph) else ()
    return (*waits, ALLOCATIONS.text)


LAUNCHES = Change(
    "launches",
    _launch_less,
    ("host_bound",),
    is_bound=True,
    core=free_host(),
    list_earlier=_list_capture_ends,
    describe=_join_evidence(describe_repeated_calls, describe_network_calls),
)
"""A GPU that is always busy has gaps between its kernels, too: they are no cost of the host."""
LAUNCHES_IN_CALLS = replace(LAUNCHES, unless=PAUSES.text)


def _transfer_less(graph: RunGraph, weights: Weights) -> Weights:
    """Reduce the gradients of micro-batches once, or move all data in no time."""
    change = reduce_once if len(find_early_transfers(graph)) else scale_communication(0.0)
    return change(graph, weights)


TRANSFERS = Change(
    "communication",
    _transfer_less,
    ("exposed_communication",),
    is_bound=True,
    frees_communication=True,
    describe=describe_early_transfers,
)
UNEQUAL_COMPUTE = Change(
    "unequal compute of the ranks",
    balance_compute(),
    ("pipeline", "experts", "straggler"),
    frees_communication=True,
)
