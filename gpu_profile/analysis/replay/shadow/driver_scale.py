"""The times that the driver takes of the host, multiplied: calls that allocate and free, and copies
that it stages.

They differ from run to run, as pauses do: the driver maps and clears pages, and copies pageable
memory on the CPU. A CUDA C++ program that allocates its buffers in each step takes 13.3 ms under
nsys in place of 10.5; 67 MB to pageable memory took 5.9 to 11 ms there and 4.3 without (H200).
"""

from collections.abc import Callable

import numpy as np

from gpu_profile.analysis.activity.activity import ALLOCATION_NAME
from gpu_profile.analysis.replay.changes import (
    find_edges,
    find_releases,
    find_staged_copies,
    match_names,
    scale_delays,
)
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

Scale = Callable[[RunGraph, Weights, float], Weights]


def scale_allocations(graph: RunGraph, weights: Weights, factor: float) -> Weights:
    """Calls that allocate and free, and pools that give memory back, take `factor` of the time."""
    allocates = match_names(graph, ALLOCATION_NAME)[graph.calls.name]
    edges = find_edges(graph, graph.nodes.call_end[allocates], Edge.CALL)
    releases = graph.nodes.call_end[find_releases(graph)]
    scaled = scale_delays(graph, weights, releases, factor)
    return scaled.with_lag(edges, np.rint(factor * weights.lag[edges]).astype(np.int64))


def scale_staged_copies(graph: RunGraph, weights: Weights, factor: float) -> Weights:
    """Copies that the driver stages take `factor` of their time, and of that before they begin."""
    rows = find_staged_copies(graph)
    calls = np.unique(graph.ops.call[rows]).astype(np.int64)
    edges = find_edges(graph, graph.nodes.call_end[calls], Edge.STAGED)
    scaled = scale_delays(graph, weights, graph.nodes.op_start[rows], factor)
    scaled = scaled.with_lag(edges, np.rint(factor * weights.lag[edges]).astype(np.int64))
    return scaled.with_work(rows, np.rint(factor * weights.work[rows]).astype(np.int64))
