"""What nsys adds to calls of CUDA: a time a node of a graph, and what stays after a recording."""

import numpy as np

from gpu_profile.analysis.activity.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import find_edges, match_names
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

NODE_PRICE_NS = 1_000
"""On an H100 (nsys 2025.3.1) the launch of 25 nodes takes 37 us, that of 192 nodes 201 us."""


def find_node_prices(graph: RunGraph) -> IntArray:
    """ns that nsys adds to each call with --cuda-graph-trace=node, by the nodes of the graph that
    it launches; 0 of other calls and of graphs that were traced as a whole.
    """
    launched = graph.ops.call[graph.ops.call != NONE]
    nodes = np.bincount(launched, minlength=len(graph.calls.start))
    replays = match_names(graph, GRAPH_CALL)[graph.calls.name] & (nodes > 1)
    return np.where(replays, nodes * NODE_PRICE_NS, 0)


def drop_callbacks(graph: RunGraph, weights: Weights, callback_ns: int) -> Weights:
    """Each call takes `callback_ns` less. Where the GPU is the limit, that changes no step."""
    edges = find_edges(graph, graph.nodes.call_end, Edge.CALL)
    return weights.with_lag(edges, np.maximum(weights.lag[edges] - callback_ns, 0))
