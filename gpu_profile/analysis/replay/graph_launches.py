"""What nsys adds to the launch of a CUDA graph with --cuda-graph-trace=node: a time a node."""

import numpy as np

from gpu_profile.analysis.activity.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.changes import match_names
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph

NODE_PRICE_NS = 1_000
"""On an H100 (nsys 2025.3.1) the launch of 25 nodes takes 37 us, that of 192 nodes 201 us."""


def find_node_prices(graph: RunGraph) -> IntArray:
    """ns that nsys adds to each call by the nodes of the graph that it launches; 0 of other calls
    and of graphs that were traced as a whole.
    """
    launched = graph.ops.call[graph.ops.call != NONE]
    nodes = np.bincount(launched, minlength=len(graph.calls.start))
    replays = match_names(graph, GRAPH_CALL)[graph.calls.name] & (nodes > 1)
    return np.where(replays, nodes * NODE_PRICE_NS, 0)
