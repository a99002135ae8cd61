"""Calls of a network that a step makes one after the other with the same launches: one for each
window of a sound, or each column of a batch.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE, SET
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.modules.marks import FORWARD
from gpu_profile.analysis.replay.changes import choose_ops, free_calls
from gpu_profile.analysis.replay.edits.loops.fused_kernels import fuse_kernels, measure_shares
from gpu_profile.analysis.replay.edits.loops.launch_rows import HALF, LEAST_ROW, LaunchRows
from gpu_profile.analysis.replay.edits.loops.narrow_kernels import is_product
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

LEAST_LAYERS = 3
"""HALF of a network's launches or more are in sequences of LEAST_ROW that come so often in one
call. The turns of another loop, such as the layers themselves, hold none."""
LEAST_ENDS = 2
"""Kernels that come once in a call, as of an embedding and a head. Without them a number of layers
looks like a network."""
LEAST_PRODUCTS = 0.04
"""Of the launches of layers, those of products of matrices: a BERT has six in 40 with its casts."""
MOST_RUNS = 2
"""Of forwards in a step with calls in a row: it may begin within one."""


@dataclass(frozen=True, eq=False)
class NetworkCalls:
    """`launches` are the calls of CUDA that the network's calls have in common, and `later` is a
    mask of those that are not of the first one in a step. A step has `count` of them. `in_row`:
    nothing is launched between them, so none of them needs what another one made.
    """

    launches: IntArray
    later: Flags
    count: int = 0
    in_row: bool = False


NO_CALLS = NetworkCalls(np.empty(0, np.int64), np.empty(0, bool))


@once_each
def find_network_calls(graph: RunGraph) -> NetworkCalls:
    """The calls of a network that steps make twice or more, thread by thread: autograd launches as
    many backward passes.
    """
    if len(graph.ranks) > 1:
        return NO_CALLS
    names, is_forward = _describe_launches(graph)
    parts = _split_launches(graph)
    repeated = [(part, _find_repeated(part, names[part])) for part in parts]
    repeated = [(part, calls) for part, calls in repeated if calls.count]
    steps = {int(graph.calls.step[part[0]]) for part, _ in repeated}
    if len(steps) < max(HALF * graph.steps, 1):
        return NO_CALLS
    launches = np.concatenate([calls.launches for _, calls in repeated])
    if _mark_products(graph)[names[launches]].mean() < LEAST_PRODUCTS:
        return NO_CALLS
    count = int(np.median([calls.count for _, calls in repeated]))
    runs = [_count_runs(is_forward[part]) for part, _ in repeated]
    return NetworkCalls(
        launches,
        np.concatenate([calls.later for _, calls in repeated]),
        count,
        count >= LEAST_ROW and all(1 <= number <= MOST_RUNS for number in runs),
    )


def describe_network_calls(graph: RunGraph) -> str:
    """Evidence of the calls that a batch makes at once; "" without any."""
    count = find_network_calls(graph).count
    if not count:
        return ""
    return (
        f"a network is called {count} times a step with the same launches: where none of the calls "
        "needs what another one made, a batch is one call"
    )


def batch_network(graph: RunGraph, weights: Weights) -> Weights:
    """Calls in a row are one for a batch: the launches of the others take no time, and their
    kernels run beside the first one's where these leave multiprocessors idle.
    """
    network = find_network_calls(graph)
    if not network.in_row:
        return weights
    calls = network.launches[network.later]
    ops = np.flatnonzero(choose_ops(graph) & np.isin(graph.ops.call, calls))
    ops = ops[np.isin(graph.ops.kind[ops], (COMPUTE, SET))]
    weights = fuse_kernels(graph, weights, ops, measure_shares(graph)[ops])
    return free_calls(graph, weights, calls)


def mark_layers(graph: RunGraph, rows: LaunchRows) -> Flags:
    """A mask of the calls of rows that are layers of a network with several calls: layers need each
    other, and multiply matrices. A loop over tensors beside them does not.
    """
    of_network = np.isin(rows.calls, find_network_calls(graph).launches)
    if not of_network.any():
        return of_network
    counts = np.maximum(np.bincount(rows.part), 1)
    shares = (
        np.bincount(rows.part, mask) / counts
        for mask in (of_network, _mark_products(graph)[rows.find_kernels(graph)])
    )
    inside, products = shares
    return np.asarray(((inside >= HALF) & (products >= LEAST_PRODUCTS))[rows.part], np.bool_)


def _find_repeated(launches: IntArray, names: IntArray) -> NetworkCalls:
    """What comes again in a sequence of launches."""
    period, count = _find_period(names)
    if not period or not _has_layers(names[:period]):
        return NO_CALLS
    again, aside = names[period:] == names[:-period], np.zeros(period, bool)
    common = np.r_[aside, again] | np.r_[again, aside]
    later = common & (np.arange(len(names)) >= period)
    if later.sum() < HALF * len(names) * (1 - 1 / count):
        return NO_CALLS
    return NetworkCalls(launches[common], later[common], count)


def _find_period(names: IntArray) -> tuple[int, int]:
    """After how many launches most of the rare kernels come again, and how often they come."""
    order = np.argsort(names, kind="stable")
    places = np.split(order, np.flatnonzero(np.diff(names[order])) + 1)
    periods = Counter[tuple[int, int]]()
    for place in places:
        apart = np.diff(place)
        if len(apart) and np.mean(apart == (usual := int(np.median(apart)))) >= HALF:
            periods[usual, len(place)] += 1
    long = [
        (kernels, key) for key, kernels in periods.items() if key[0] >= LEAST_LAYERS * LEAST_ROW
    ]
    kernels, key = max(long, default=(0, (0, 0)))
    return key if kernels >= LEAST_ENDS else (0, 0)


def _has_layers(names: IntArray) -> bool:
    """Whether most of these launches are of equal layers."""
    sequences = np.lib.stride_tricks.sliding_window_view(names, LEAST_ROW)
    which, counts = np.unique(sequences, axis=0, return_inverse=True, return_counts=True)[1:]
    begins = np.flatnonzero(counts[which.ravel()] >= LEAST_LAYERS)
    covered = np.zeros(len(names), bool)
    covered[begins[:, np.newaxis] + np.arange(LEAST_ROW)] = True
    return bool(covered.mean() >= HALF)


@once_each
def _mark_products(graph: RunGraph) -> Flags:
    """A mask of the names of products of matrices, by their number."""
    return np.array([is_product(name) for name in graph.names], np.bool_)


def _count_runs(chosen: Flags) -> int:
    """How many rows the chosen ones stand in."""
    return int(np.count_nonzero(np.diff(np.r_[False, chosen].astype(np.int8)) > 0))


def _split_launches(graph: RunGraph) -> list[IntArray]:
    """The calls that launch, of each thread and step."""
    launches = np.unique(graph.ops.call[graph.ops.call != NONE]).astype(np.int64)
    part = graph.calls.thread[launches].astype(np.int64) * graph.steps + graph.calls.step[launches]
    order = np.argsort(part, kind="stable")
    return np.split(launches[order], np.flatnonzero(np.diff(part[order])) + 1)


def _describe_launches(graph: RunGraph) -> tuple[IntArray, Flags]:
    """By call: the name of what it launches, and whether it does so in a forward."""
    launched = np.flatnonzero(graph.ops.call != NONE)
    calls = graph.ops.call[launched]
    names = np.zeros(len(graph.calls.start), np.int64)
    is_forward = np.zeros(len(names), bool)
    names[calls] = graph.ops.name[launched]
    of_forward = np.array([place == FORWARD for place in graph.places], bool)
    is_forward[calls] = of_forward[graph.ops.place[launched]]
    return names, is_forward
