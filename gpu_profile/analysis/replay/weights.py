"""What a change of the program changes in the graph: times, never dependencies that appear."""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.run.run_graph import RunGraph


@dataclass(frozen=True, eq=False)
class Weights:
    """`lag` and `is_gone` (the dependency does not exist any more) by edge, `delay` by node, `work`
    by operation (its time without communication beside it), `silent` by call (the part of pauses in
    the delay before it); times in ns.
    """

    lag: IntArray
    delay: IntArray
    work: IntArray
    is_gone: Flags
    silent: IntArray

    @classmethod
    def of(cls, graph: RunGraph) -> "Weights":
        """The weights of the unchanged graph."""
        none = np.zeros(len(graph.edges.lag), bool)
        return cls(graph.edges.lag, graph.delay, graph.work, none, graph.calls.silent)

    @cached_property
    def digest(self) -> bytes:
        """Equal where a replay gives equal times, which do not depend on `silent`."""
        columns = (self.lag, self.delay, self.work, self.is_gone)
        return blake2b(b"".join(column.tobytes() for column in columns), digest_size=16).digest()

    def with_delay(self, nodes: IntArray, delay: IntArray | int) -> "Weights":
        changed = self.delay.copy()
        changed[nodes] = delay
        return replace(self, delay=changed)

    def with_lag(self, edges: IntArray, lag: IntArray | int) -> "Weights":
        changed = self.lag.copy()
        changed[edges] = lag
        return replace(self, lag=changed)

    def with_work(self, ops: IntArray, work: IntArray | int) -> "Weights":
        changed = self.work.copy()
        changed[ops] = work
        return replace(self, work=changed)

    def without_edges(self, edges: IntArray) -> "Weights":
        gone = self.is_gone.copy()
        gone[edges] = True
        return replace(self, is_gone=gone)
