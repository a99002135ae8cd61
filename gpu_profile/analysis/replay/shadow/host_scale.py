"""The host's own work and its pauses, multiplied."""

from dataclasses import replace

import numpy as np

from gpu_profile.analysis.replay.changes import find_edges
from gpu_profile.analysis.replay.edits.host_work import measure_own_pauses
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.shadow.nsys_prices import find_node_prices, shorten_gaps
from gpu_profile.analysis.replay.weights import Weights

MOST_PRICE_NS, TYPICAL_PRICE_NS = 20_000, 8_000
"""nsys takes a few us of a call, however long it is: a cudaMalloc of 140 us is slow by itself. A
factor of 0 takes the first one. TYPICAL_FACTOR takes 2.8 us of the second one: in seven programs
of CUDA C++ and CuPy without pauses the control asks for -0.5 to 3.7 us a call, cudaMalloc or not.
"""
TYPICAL_FACTOR, FACTORS, LEAST_KNOWN = 0.65, (0.50, 0.92), 0.39
"""The middle of the factors of 13 programs (find_shadow.py), the range of four in five of 40 later
ones, and the least of these.

The middle is for a recording without a control, and for a host that its GPU hides. There the
control says nothing of the profiler's price, which counts as soon as a change makes the GPU faster.
It gives the steps of those 13 programs within 16 %, and of 29 of the 40. Neither how long calls
that launch take nor the host's work between them tells the factor (correlations -0.29 and -0.05).
"""
HIDDEN = 0.005
"""A step that gets shorter by less without the profiler is not the host's."""


def scale_host(
    graph: RunGraph, weights: Weights, factor: float, most_price_ns: int = MOST_PRICE_NS
) -> Weights:
    """Multiply the host's own time by `factor`: that in calls, of each `most_price_ns` at most, and
    that between calls without pauses. Below 1 the GPU's gaps are without what nsys adds to
    them, whatever it adds to the host.

    Pauses are work that the profiler does not see, such as loading data, so it does not slow them.
    """
    calls, nodes = graph.calls, graph.nodes
    moves = graph.has_source
    delay = weights.delay.copy()
    begins = moves[nodes.call_start]
    starts, silent = nodes.call_start[begins], weights.silent[begins]
    work = np.maximum(delay[starts] - silent, 0)
    delay[starts] -= work - np.rint(factor * work).astype(np.int64)
    ends = nodes.call_end[~calls.waits & moves[nodes.call_end]]
    delay[ends] = np.rint(factor * delay[ends]).astype(np.int64)
    edges = find_edges(graph, nodes.call_end, Edge.CALL)
    recorded = weights.lag[edges]
    price = np.minimum(recorded, most_price_ns)
    of_nodes = np.zeros(len(graph.time), np.int64)
    of_nodes[nodes.call_end] = find_node_prices(graph)
    # A program without the profiler pays none of it, whatever else its host does faster.
    part = min(1.0, (1 - factor) / (1 - TYPICAL_FACTOR))
    extra = np.minimum(part * of_nodes[graph.edges.target[edges]], recorded - price)
    lag = recorded - np.rint((1 - factor) * price + np.maximum(extra, 0)).astype(np.int64)
    scaled = weights.with_delay(np.arange(len(delay)), delay).with_lag(edges, lag)
    return shorten_gaps(graph, scaled) if factor < 1 else scaled


def subtract_typical_price(graph: RunGraph, weights: Weights) -> Weights:
    """The host without what nsys takes of it in most programs."""
    return scale_host(graph, weights, TYPICAL_FACTOR, TYPICAL_PRICE_NS)


def lengthen_pauses(graph: RunGraph, weights: Weights, factor: float) -> Weights:
    """Multiply the host's pauses by `factor`."""
    more = np.rint((factor - 1) * measure_own_pauses(graph, weights)).astype(np.int64)
    starts = graph.nodes.call_start
    longer = weights.with_delay(starts, weights.delay[starts] + more)
    return replace(longer, silent=weights.silent + more)
