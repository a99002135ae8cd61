"""What autograd launches for the turns of a loop with reads: a batch of them has one backward pass.

Autograd launches on a thread of its own, without a read. Its loop is known by its number of passes.
"""

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.replay.edits.loops.launch_rows import LaunchRows
from gpu_profile.analysis.replay.edits.loops.tiny_kernels import find_tiny_rows
from gpu_profile.analysis.replay.run.run_graph import RunGraph

PASSES_PER_TURN = (0.5, 1, 2)
"""64 sentences with two spans each are 128 turns, and autograd launches two
fills and two copies for a sentence, and one stack."""
MOST_APART, LEAST_PART = 0.05, 0.5
"""A kernel comes as often as there are passes if the numbers differ by at most that part, or by
one: the first pass adds to no gradient. Such kernels are LEAST_PART of a row's launches or more."""


def find_backward_rows(graph: RunGraph, reads: IntArray) -> LaunchRows:
    """The rows of tiny kernels that autograd launches for a loop; `reads` end its turns, but for
    the first one, which begins with the step.
    """
    if not len(reads):
        return LaunchRows(reads, reads)
    rows = find_tiny_rows(graph)
    parts = rows.split()
    chosen = [_is_backward(graph, part, reads) for part in parts]
    return rows.keep(np.repeat(np.array(chosen, bool), [len(part.calls) for part in parts]))


def _is_backward(graph: RunGraph, row: LaunchRows, reads: IntArray) -> bool:
    """Whether another thread launches the row after these turns of its step, and as often."""
    first, calls = int(row.calls[0]), graph.calls
    is_before = (calls.start[reads] < calls.start[first]) & (calls.step[reads] == calls.step[first])
    turns = reads[is_before & (graph.call_rank[reads] == graph.call_rank[first])]
    if not len(turns) or np.any(calls.thread[turns] == calls.thread[first]):
        return False
    counts = np.unique(row.find_kernels(graph), return_counts=True)[1]
    passes = (1 + len(turns)) * np.array(PASSES_PER_TURN)
    far = np.abs(counts[:, np.newaxis] - passes)
    is_near = (far <= np.maximum(MOST_APART * passes, 1)).any(axis=1)
    return float(counts[is_near].sum()) >= LEAST_PART * len(row.calls)
