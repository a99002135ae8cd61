"""Join several recorded windows of one rank into one activity.

The times of later windows are moved to the first window's clock, and their name ids are replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity, Calls, Ops
from gpu_profile.analysis.activity.comm.calls import CommCalls, Messages
from gpu_profile.analysis.activity.graph_captures import GraphCaptures
from gpu_profile.analysis.activity.nvtx_ranges import FOREVER, Ranges
from gpu_profile.analysis.arrays.columns import encode_column
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.types import IntArray

Later = Sequence[tuple[Activity, int]]
"""The later windows, each with the ns to add to its times."""


def join_activities(first: Activity, later: Later) -> Activity:
    """The first window with the later ones appended. `leader` is None: the caller sets it."""
    names = _Names(first.names)
    ops, calls, ranges = first.ops, first.calls, first.ranges
    overhead, comm, captures = first.overhead, first.comm, first.captures
    seams = [first.seams]
    for window, shift in later:
        codes = names.add(window.names)
        seams.append(np.array([[_find_last_event(ops, calls), _find_first_event(window) + shift]]))
        ops = _join_ops(ops, window.ops, len(calls.start), shift, codes)
        calls = _join_calls(calls, window.calls, shift, codes)
        ranges = join_ranges(ranges, window.ranges, shift)
        overhead = Intervals(
            np.r_[overhead.start, window.overhead.start + shift],
            np.r_[overhead.end, window.overhead.end + shift],
        )
        comm = _join_comm(comm, window.comm)
        captures = _join_captures(captures, window.captures, shift)
    return replace(
        first,
        ops=ops,
        calls=calls,
        ranges=ranges,
        overhead=overhead,
        names=names.texts,
        comm=comm,
        captures=captures,
        leader=None,
        seams=np.concatenate(seams),
    )


def _find_last_event(ops: Ops, calls: Calls) -> int:
    return max(ops.end.max(initial=0), calls.end.max(initial=0))


def _find_first_event(activity: Activity) -> int:
    calls = activity.calls
    return min(int(activity.ops.start.min(initial=FOREVER)), int(calls.start.min(initial=FOREVER)))


class _Names:
    """Texts by id over all windows. Each report numbers its strings separately."""

    def __init__(self, texts: Mapping[int, str]) -> None:
        self.texts = dict(texts)
        self._ids = {text: key for key, text in texts.items()}
        self._next = max(self.texts, default=0) + 1

    def add(self, texts: Mapping[int, str]) -> dict[int, int]:
        """Add another window's texts; return the joint id of each of its ids."""
        codes = {}
        for key, text in texts.items():
            if text not in self._ids:
                self._ids[text] = self._next
                self.texts[self._next] = text
                self._next += 1
            codes[key] = self._ids[text]
        return codes


def _rename_codes(codes: IntArray, new_codes: Mapping[int, int]) -> IntArray:
    place, values = encode_column(codes)
    return np.array([new_codes.get(value, value) for value in values.tolist()], np.int64)[place]


def _join_ops(first: Ops, other: Ops, calls: int, shift: int, codes: Mapping[int, int]) -> Ops:
    columns = {field.name: getattr(other, field.name) for field in fields(Ops)}
    columns |= {key: _rename_codes(columns[key], codes) for key in columns if key.endswith("name")}
    columns["start"] = other.start + shift
    columns["shape"] = other.shape.astype(np.int32) + len(first.shapes)
    columns["call"] = np.where(other.call == NO_CALL, NO_CALL, other.call + calls)
    return Ops(**{key: np.r_[getattr(first, key), column] for key, column in columns.items()})


def _join_calls(first: Calls, other: Calls, shift: int, codes: Mapping[int, int]) -> Calls:
    calls = replace(
        other,
        start=other.start + shift,
        name=_rename_codes(other.name, codes),
    )
    columns = {
        field.name: np.r_[getattr(first, field.name), getattr(calls, field.name)]
        for field in fields(Calls)
    }
    threads, place = np.unique(columns["threads"], return_inverse=True)
    columns["thread"] = place[np.r_[first.thread, len(first.threads) + other.thread]]
    return Calls(**{**columns, "threads": threads})


def join_ranges(first: Ranges, other: Ranges, shift: int) -> Ranges:
    """The ranges of both windows. A range of the first that never closed ends where the other
    begins.
    """
    names = list(dict.fromkeys((*first.names, *other.names)))
    place = {name: code for code, name in enumerate(names)}
    renamed = np.array([place[name] for name in other.names], np.int64)[other.name]
    begin = int(other.start.min(initial=0)) + shift
    start, end = other.start + shift, np.where(other.end == FOREVER, FOREVER, other.end + shift)
    return Ranges(
        np.r_[first.start, start],
        np.r_[np.where(first.end == FOREVER, begin, first.end), end],
        np.r_[first.thread, other.thread],
        np.r_[first.domain, other.domain],
        np.r_[first.name, renamed],
        tuple(names),
        np.r_[first.payload, other.payload],
    )


def _join_captures(
    first: GraphCaptures | None, other: GraphCaptures | None, shift: int
) -> GraphCaptures | None:
    if first is None or other is None:
        return first
    return GraphCaptures(
        np.r_[first.node, other.node],
        np.r_[first.thread, other.thread],
        np.r_[first.time, other.time + shift],
    )


def _join_comm(first: CommCalls | None, other: CommCalls | None) -> CommCalls | None:
    if first is None or other is None:
        return None
    before = len(first.communicator)
    messages = Messages(
        np.r_[first.messages.kernel, other.messages.kernel + before],
        np.r_[first.messages.peer, other.messages.peer],
        np.r_[first.messages.sends, other.messages.sends],
        np.r_[first.messages.bytes, other.messages.bytes],
    )
    return CommCalls(
        np.r_[first.communicator, other.communicator],
        np.r_[first.kind, other.kind],
        np.r_[first.bytes, other.bytes],
        messages,
        {**other.ranks, **first.ranks},
    )
