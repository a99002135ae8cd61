"""Captures of CUDA graphs: the calls of each, and the call that made each node of a graph."""

import re
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import Index
from gpu_profile.analysis.arrays.types import Flags, IntArray, Threads
from gpu_profile.analysis.store.database import MISSING, Database
from gpu_profile.analysis.store.schema import process_of

INSTANTIATE_NAME = re.compile(r"cu(da)?GraphInstantiate")
"""A graph that is captured, or built node by node, is instantiated after that."""
NODES = "CUDA_GRAPH_NODE_EVENTS"
NO_NODE = 0
# A captured graph is cloned once when it is instantiated. Longer chains are of nested graphs.
MOST_CLONES = 8


@dataclass(frozen=True, eq=False)
class GraphCaptures:
    """The nodes of one process's CUDA graphs; arrays of one length.

    `node` is nsys' graphNodeId. `thread` (globalTid) and `time` (ns) are those of the call that
    added the node to the graph that was captured, also for the nodes of its instances.
    """

    node: IntArray
    thread: IntArray
    time: IntArray

    def places(self, nodes: IntArray) -> IntArray:
        """The row of each node id, or -1."""
        return Index(self.node).places(nodes).astype(np.int64)


def find_capture_calls(
    thread: Threads, launches: Flags, instantiates: Flags
) -> tuple[IntArray, IntArray]:
    """The first and the last call of each capture, of calls in the order of threads, then of time.

    What is captured launches nothing: a capture goes from the call after a launch to the next call
    that launches an operation, or to the ends of the thread, with an instantiation between them.
    """
    begins = np.ones(len(thread), bool)
    begins[1:] = launches[:-1] | (thread[1:] != thread[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(thread)) - 1
    captures = np.unique(np.searchsorted(first, np.flatnonzero(instantiates), "right") - 1)
    return first[captures], last[captures]


def load_graph_captures(database: Database, process: int) -> GraphCaptures:
    """The captures of one process (a globalPid); empty without --cuda-graph-trace=node.

    nsys writes an event for each node that is made; of a clone, a second one that names the
    original node (`originalGraphNodeId`).
    """
    columns = ("start", "globalTid", "graphNodeId", "originalGraphNodeId?")
    rows = database.load(NODES, *columns, sort=False)
    of_process = process_of(rows["globalTid"]) == process
    rows = {name: values[of_process] for name, values in rows.items()}
    cloned = rows["originalGraphNodeId"] != MISSING
    created = np.flatnonzero(~cloned)
    node, first = np.unique(rows["graphNodeId"][created], return_index=True)
    origin = _find_origins(node, rows["graphNodeId"][cloned], rows["originalGraphNodeId"][cloned])
    event = created[first[origin]]
    return GraphCaptures(node, rows["globalTid"][event], rows["start"][event])


def _find_origins(node: IntArray, clone: IntArray, original: IntArray) -> IntArray:
    """The row in `node` of the node that each one was first cloned from, or its own row."""
    index = Index(node)
    origin = np.arange(len(node))
    of_clone, of_original = index.places(clone), index.places(original)
    is_row = (of_clone >= 0) & (of_original >= 0)
    origin[of_clone[is_row]] = of_original[is_row]
    for _ in range(MOST_CLONES):
        origin = origin[origin]
    return origin
