"""Try the changes that the critical path of a run holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMPUTE
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.multi_report.forked_copy import map_in_copies
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.critical_path import CriticalPath, find_critical_path
from gpu_profile.analysis.replay.run.run_graph import Edge, RunGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.weights import Weights


@dataclass(frozen=True, eq=False)
class Trial:
    """`time` of each node with the change, and the step that follows."""

    change: Change
    time: IntArray
    step_ms: float


def try_changes(
    replay: Replay, weights: Weights, time: IntArray, changes: Sequence[Change], least_ms: float
) -> list[Trial]:
    """Replay the changes that the critical path holds, in as many processes as the replay has."""
    graph = replay.graph
    path = find_critical_path(graph, time, weights)
    slowed = _measure_slowed(graph, path, time)

    def try_change(change: Change) -> tuple[IntArray, float] | None:
        held = _measure_held(graph, path, weights, (change.core or change.apply)(graph, weights))
        held += slowed if change.frees_communication else 0.0
        # No change gains more than the path holds of it, and each replay takes 10 us an operation.
        if not held or held / 1e6 < least_ms:
            return None
        changed = change.apply(graph, weights)
        return replay.simulate(changed), replay.predict_step(changed)

    tried = map_in_copies(try_change, changes, replay.processes)
    pairs = zip(changes, tried, strict=True)
    return [Trial(change, *values) for change, values in pairs if values]


def _measure_held(graph: RunGraph, path: CriticalPath, before: Weights, after: Weights) -> float:
    """The time (ns a step) on the path that the change removes; inf if it removes a dependency."""
    if np.any(after.is_gone[path.edge] & ~before.is_gone[path.edge]):
        return float("inf")
    delay = (before.delay - after.delay)[path.node].sum()
    lag = (before.lag - after.lag)[path.edge].sum()
    op_of = np.full(len(graph.time), -1)
    op_of[graph.nodes.op_end] = np.arange(len(graph.nodes.op_end))
    runs = op_of[path.node[graph.edges.kind[path.edge] == Edge.RUN]]
    work = ((before.work - after.work)[runs] * graph.stretch[runs]).sum()
    return float(delay + lag + work) / path.steps


def _measure_slowed(graph: RunGraph, path: CriticalPath, time: IntArray) -> float:
    """The time (ns a step) by which communication slows the compute on the path."""
    op_of = np.full(len(graph.time), -1)
    op_of[graph.nodes.op_end] = np.arange(len(graph.nodes.op_end))
    runs = op_of[path.node[graph.edges.kind[path.edge] == Edge.RUN]]
    runs = runs[(graph.ops.kind[runs] == COMPUTE) & (graph.stretch[runs] > 1)]
    nodes = graph.nodes
    longer = time[nodes.op_end[runs]] - time[nodes.op_start[runs]] - graph.work[runs]
    return float(np.maximum(longer, 0).sum()) / path.steps
