"""What nsys adds to calls of CUDA, a time a node of a graph and what stays after a recording, and
to the gaps between kernels.
"""

import numpy as np

from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import find_edges, match_names
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.weights import Weights

NODE_PRICE_NS = 1_000
"""On an H100 (nsys 2025.3.1) the launch of 25 nodes takes 37 us, that of 192 nodes 201 us."""
GAP_PRICE_NS, LONG_GAP_NS = 500, 5_000
"""What nsys adds before an operation, and the gap from which on something else makes it long. In 21
programs that the GPU limits the recorded step is longer by -0.4 to 1.7 us an operation, 0.56 in the
median, and by 0.3 to 0.5 in the three of the most operations (H100, H200)."""


def find_node_prices(graph: RunGraph) -> IntArray:
    """ns that nsys adds to each call with --cuda-graph-trace=node, by the nodes of the graph that
    it launches; 0 of other calls and of graphs that were traced as a whole.
    """
    launched = graph.ops.call[graph.ops.call != NONE]
    nodes = np.bincount(launched, minlength=len(graph.calls.start))
    replays = match_names(graph, GRAPH_CALL)[graph.calls.name] & (nodes > 1)
    return np.where(replays, nodes * NODE_PRICE_NS, 0)


def shorten_gaps(graph: RunGraph, weights: Weights) -> Weights:
    """Short gaps before operations without GAP_PRICE_NS, half of a gap at most."""
    starts = graph.nodes.op_start[graph.live]
    starts = starts[graph.has_source[starts] & (weights.delay[starts] < LONG_GAP_NS)]
    gaps = weights.delay[starts]
    price = np.minimum(GAP_PRICE_NS, gaps // 2)
    return weights.with_delay(starts, gaps - price)


def drop_callbacks(graph: RunGraph, weights: Weights, callback_ns: int) -> Weights:
    """Each call takes `callback_ns` less. Where the GPU is the limit, that changes no step."""
    edges = find_edges(graph, graph.nodes.call_end, Edge.CALL)
    return weights.with_lag(edges, np.maximum(weights.lag[edges] - callback_ns, 0))
