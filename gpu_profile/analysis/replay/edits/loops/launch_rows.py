"""Rows of launches: those that follow each other on a thread, as the passes of a loop make them."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.idle.stalls import LONG_GAP_NS, LONG_GAP_SHARE
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.replay.rank.rank_graph import NONE
from gpu_profile.analysis.replay.run.run_graph import RunGraph
from gpu_profile.analysis.replay.weights import Weights

LEAST_ROW = 6
"""Loops over tensors launch six to hundreds of tiny kernels in a row. The layers of a model have
tiny kernels, too, but between others: ResNet-50 has 471 a step, 12 of them in such rows, BERT 200
and 8. What fuses the loop leaves the others."""

HALF = 0.5
MAIN_PART = 0.24
"""What recurs in fewer rows than that part is not the loop's, where rows have a pass or two each:
hooks of an EfficientNet launch the same kernels in 111 rows of a step, its layers in 23 at most; a
quarter of a GPT's matrices has one shape."""


@dataclass(frozen=True, eq=False)
class LaunchRows:
    """`calls` launch in rows. `part` is the number of the row's part in one step, by call."""

    calls: IntArray
    part: IntArray

    def mark_later(self) -> Flags:
        """A mask of the calls that are not the first of their part."""
        return np.asarray(np.r_[False, self.part[1:] == self.part[:-1]][: len(self.part)], np.bool_)

    def mark_batches(self, graph: RunGraph) -> Flags:
        """A mask of the calls that a batch of the passes of a loop makes: the first of each kernel,
        where a part holds LEAST_ROW passes or more.

        A part with fewer may be within a pass. Where twelve requests have an adapter of three
        kernels each, a batch launches 3 kernels in place of 36.
        """
        return np.asarray(self._mark_kernels(graph) & self._mark_repeated(graph), np.bool_)

    def _mark_repeated(self, graph: RunGraph) -> Flags:
        """A mask of the calls of parts that hold LEAST_ROW passes or more."""
        kernels = np.bincount(self.part, self._mark_kernels(graph))
        passes = np.bincount(self.part) / np.maximum(kernels, 1)
        return np.asarray((passes >= LEAST_ROW)[self.part], np.bool_)

    def _mark_kernels(self, graph: RunGraph) -> Flags:
        """A mask of the calls that are the first of a part to launch their kernel."""
        kernel = self.part * len(graph.names) + self.find_kernels(graph)
        is_first = np.zeros(len(self.calls), bool)
        is_first[np.unique(kernel, return_index=True)[1]] = True
        return is_first

    def find_kernels(self, graph: RunGraph) -> IntArray:
        """The name of what each call launches."""
        launched = graph.ops.call != NONE
        name = np.zeros(len(graph.calls.start), np.int64)
        name[graph.ops.call[launched]] = graph.ops.name[launched]
        return np.asarray(name[self.calls], np.int64)

    def are_loops(self, graph: RunGraph) -> bool:
        """Whether half of the calls or more are of loops: a program can batch these. A part holds
        LEAST_ROW passes, or is one of as many in its step: a copy in each pass ends the row.
        """
        if not len(self.part):
            return False
        has_passes = (np.bincount(self.part, self.mark_batches(graph)) > 0)[self.part]
        return float((has_passes | (self._count_alike(graph) >= LEAST_ROW)).mean()) >= HALF

    def _count_alike(self, graph: RunGraph) -> IntArray:
        """For each call, how many parts of its step launch the same kernels in the same order."""
        first = np.flatnonzero(~self.mark_later())
        steps = graph.calls.step[self.calls[first]].tolist()
        kernels = np.split(self.find_kernels(graph), first[1:])
        parts = [(step, names.tobytes()) for step, names in zip(steps, kernels, strict=True)]
        counts = Counter(parts)
        alike = np.array([counts[part] for part in parts], np.int64)
        return np.repeat(alike, [len(names) for names in kernels])

    def keep_main_loop(self, graph: RunGraph) -> "LaunchRows":
        """The rows without the launches that stand by chance beside a pass of a loop.

        Where a row holds one pass, those of the network around it are in it, too: hooks that
        measure gradients launch between the kernels of the backward pass. A sequence of LEAST_ROW
        kernels that recurs in MAIN_PART as many rows as the most frequent one is the loop's.
        """
        is_single = ~self._mark_repeated(graph)
        begins, rows = self._count_sequences(graph, is_single)
        most = int(rows.max(initial=0))
        if most < LEAST_ROW * graph.steps:
            return self
        edges = np.zeros(len(self.part) + 1, np.int64)
        begins = begins[rows >= MAIN_PART * most]
        edges[begins] += 1
        edges[begins + LEAST_ROW] -= 1
        return self.keep(~is_single | (np.cumsum(edges)[:-1] > 0))

    def split(self) -> list["LaunchRows"]:
        """Each part by itself."""
        places = np.flatnonzero(~self.mark_later())[1:]
        pairs = zip(np.split(self.calls, places), np.split(self.part, places), strict=True)
        return [LaunchRows(*pair) for pair in pairs] if len(self.calls) else []

    def keep(self, chosen: Flags) -> "LaunchRows":
        """The rows with the chosen calls only."""
        return LaunchRows(self.calls[chosen], self.part[chosen])

    def _count_sequences(self, graph: RunGraph, chosen: Flags) -> tuple[IntArray, IntArray]:
        """Where sequences of LEAST_ROW kernels in one part begin, and in how many parts each of
        them is; of the `chosen` parts.
        """
        begins = np.arange(max(len(self.part) - LEAST_ROW + 1, 0))
        is_inside = self.part[begins] == self.part[begins + LEAST_ROW - 1]
        begins = begins[is_inside & chosen[begins]]
        places = begins[:, np.newaxis] + np.arange(LEAST_ROW)
        kernels = self.find_kernels(graph)[places]
        sequence = np.unique(kernels, axis=0, return_inverse=True)[1].ravel()
        pairs = np.unique(np.stack((sequence, self.part[begins]), axis=1), axis=0)
        return begins, np.asarray(np.bincount(pairs[:, 0])[sequence], np.int64)

    def list_short_pauses(self, graph: RunGraph, weights: Weights) -> IntArray:
        """The calls of rows after a pause that is shorter than other work takes, or than
        LONG_GAP_SHARE of its part: an optimizer of 576 tensors works 3.5 ms on their list before it
        launches anything.
        """
        begin, end = graph.calls.start[self.calls], graph.calls.end[self.calls]
        later = self.mark_later()
        time = np.bincount(self.part, weights=end * _mark_last(later) - begin * ~later)
        most = np.maximum(LONG_GAP_NS, LONG_GAP_SHARE * time)[self.part]
        return np.asarray(self.calls[later & (weights.silent[self.calls] < most)], np.int64)


def _mark_last(later: Flags) -> Flags:
    return np.asarray(~np.r_[later[1:], False][: len(later)], np.bool_)


def find_launch_rows(graph: RunGraph, chosen: Flags, group: IntArray | None = None) -> LaunchRows:
    """The rows of the calls that launch only the `chosen` operations, thread by thread, or by the
    `group` of each call.
    """
    call, count = graph.ops.call, len(graph.calls.start)
    launched = call != NONE
    only_chosen = np.zeros(count, bool)
    only_chosen[call[chosen & launched]] = True
    only_chosen[call[~chosen & launched]] = False
    launches = np.unique(call[launched]).astype(np.int64)
    group = graph.calls.thread.astype(np.int64) if group is None else group
    launches = launches[np.lexsort((graph.calls.start[launches], group[launches]))]
    group, step = group[launches], graph.calls.step[launches]
    in_row = mark_runs(only_chosen[launches], group)
    changes = (np.diff(in_row) != 0) | (np.diff(group) != 0) | (np.diff(step) != 0)
    part = np.cumsum(np.r_[False, changes][: len(launches)], dtype=np.int64)
    return LaunchRows(launches[in_row], part[in_row])


def mark_runs(chosen: Flags, thread: IntArray) -> Flags:
    """The chosen launches that stand with others in a row of LEAST_ROW or more of one thread."""
    changes = (chosen[1:] != chosen[:-1]) | (thread[1:] != thread[:-1])
    begins = np.flatnonzero(np.r_[True, changes][: len(chosen)])
    lengths = np.diff(begins, append=len(chosen))
    return np.asarray(chosen & np.repeat(lengths >= LEAST_ROW, lengths), np.bool_)
