"""The owner of each GPU operation: a module's forward or backward, an optimizer, a collective.

The innermost mark that is open on the launching thread at the launch decides. An operation of a
replayed CUDA graph belongs to the mark that was open when its node was captured, if that is in the
report. Whatever has no owner is named by the phase in which it was launched.
"""

from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.activity.activity import COMMUNICATION, NO_CALL, Activity
from gpu_profile.analysis.activity.graph_captures import NO_NODE
from gpu_profile.analysis.activity.nvtx_ranges import NO_RANGE, Ranges, find_own_innermost
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.bucket_owners import find_bucket_owners
from gpu_profile.analysis.modules.marks import (
    ACCUMULATE,
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    Mark,
    Marks,
    Module,
    load_marks,
    phases_of,
)
from gpu_profile.analysis.tables.comm_kernels import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    KINDS,
    OTHER,
    REDUCE,
    REDUCE_SCATTER,
)
from gpu_profile.analysis.tables.statistics import encode_rows

COLLECTIVE, UNATTRIBUTED = "communication", "unattributed"
WORKS = (FORWARD, BACKWARD, ACCUMULATE, OPTIMIZER, COLLECTIVE, UNATTRIBUTED)
REDUCING = frozenset((ALL_REDUCE, REDUCE_SCATTER, REDUCE))
"""Kinds of collectives that synchronise gradients."""
SYNCHRONISE = REDUCING | {ALL_GATHER, BROADCAST}
"""Kinds of collectives that synchronise gradients and parameters."""
GRAPH, NO_PHASE, NO_LAUNCH = "graph", "outside of phases", "no launch recorded"


@dataclass(frozen=True)
class Owner:
    """`work` is one of WORKS. The module of UNATTRIBUTED work names the phase: "(backward)"."""

    work: str
    module: Module


@dataclass(frozen=True, eq=False)
class Owners:
    """`of_op`: for each operation the index of its owner in `owners`."""

    owners: tuple[Owner, ...]
    of_op: IntArray

    def flags(self, work: str) -> IntArray:
        """A mask over `owners` of those with this work."""
        return np.array([owner.work == work for owner in self.owners], bool)


@once_each
def find_op_owners(activity: Activity) -> Owners | None:
    """The owner of each operation; None if the process was recorded without --annotate."""
    marks = load_marks(activity.ranges)
    if marks is None:
        return None
    book = _Book()
    of_name = np.array([book.code(_make_owner(mark)) for mark in marks.by_name], np.int64)
    mark_code = np.append(
        of_name, book.code(_make_unattributed(NO_PHASE))
    )  # NO_RANGE (-1): the last
    every = np.arange(len(activity.ops.call))
    codes = mark_code[
        _name_of_ranges(marks, activity.launcher_of(every), activity.launch_starts[:])
    ]
    codes[activity.ops.call == NO_CALL] = book.code(_make_unattributed(NO_LAUNCH))
    _set_graph_owners(activity, marks, mark_code, codes, book)
    _set_collectives(activity, marks, codes, book)
    return Owners(book.owners, codes)


def find_owners_at(activity: Activity, thread: IntArray, time: IntArray) -> Owners | None:
    """The owner of what each thread (globalTid) did at each time; None without marks.

    `of_op` has an entry for each time.
    """
    marks = load_marks(activity.ranges)
    if marks is None:
        return None
    book = _Book()
    of_name = np.array([book.code(_make_owner(mark)) for mark in marks.by_name], np.int64)
    mark_code = np.append(of_name, book.code(_make_unattributed(NO_PHASE)))
    return Owners(book.owners, mark_code[_name_of_ranges(marks, thread, time)])


class _Book:
    """Numbers owners in the order in which they are first used."""

    def __init__(self) -> None:
        self._codes: dict[Owner, int] = {}

    def code(self, owner: Owner) -> int:
        return self._codes.setdefault(owner, len(self._codes))

    @property
    def owners(self) -> tuple[Owner, ...]:
        return tuple(self._codes)


def _make_owner(mark: Mark) -> Owner:
    if mark.phase == OPTIMIZER:
        return Owner(OPTIMIZER, mark.module)
    if mark.module.name:
        return Owner(mark.phase, mark.module)
    return _make_unattributed(mark.phase or NO_PHASE)


def _make_unattributed(where: str) -> Owner:
    return Owner(UNATTRIBUTED, Module(f"({where})", UNATTRIBUTED))


def _name_of_ranges(marks: Marks, thread: IntArray, time: IntArray) -> IntArray:
    """The name (a code of Marks.by_name, or NO_RANGE) of the innermost mark at each time.

    A thread without an open mark of its own is in the phase of the main thread: autograd's threads
    between two modules are in `backward`.
    """
    names = _open_on_thread(marks.ranges, thread, time)
    phases = phases_of(marks)
    if not len(phases.start):
        return names
    free = np.flatnonzero(names == NO_RANGE)
    main = np.full(len(free), phases.thread[0])
    names[free] = _open_on_thread(phases, main, time[free])
    return names


def _open_on_thread(ranges: Ranges, thread: IntArray, time: IntArray) -> IntArray:
    """The name's code of the innermost range open on the thread itself, or NO_RANGE."""
    return np.append(ranges.name, NO_RANGE)[find_own_innermost(ranges, thread, time)]


def _set_graph_owners(
    activity: Activity, marks: Marks, mark_code: IntArray, codes: IntArray, book: _Book
) -> None:
    """Set the owners of replayed graphs: by the capture, else by the replay's module, else none."""
    replayed = np.flatnonzero(activity.ops.graph_node != NO_NODE)
    if not len(replayed):
        return
    graph = book.code(_make_unattributed(GRAPH))
    owned = np.array([owner.work != UNATTRIBUTED for owner in book.owners], bool)
    codes[replayed] = np.where(owned[codes[replayed]], codes[replayed], graph)
    captures = activity.captures
    place = captures.places(activity.ops.graph_node[replayed]) if captures else replayed * 0 - 1
    has_capture = place >= 0
    if captures is None or not has_capture.any():
        return
    rows, place = replayed[has_capture], place[has_capture]
    names = _open_on_thread(marks.ranges, captures.thread[place], captures.time[place])
    captured = mark_code[names]
    codes[rows] = np.where(owned[captured], captured, codes[rows])


def _set_collectives(activity: Activity, marks: Marks, codes: IntArray, book: _Book) -> None:
    """Make communication that of its module, else a collective of its kind.

    What synchronises gradients in the backward pass is launched in whatever module's backward
    runs then: it belongs to the module whose gradients are in it, where the marks tell that. FSDP
    fetches parameters ahead: their owner is not known.
    """
    rows = np.flatnonzero(activity.ops.kind == COMMUNICATION)
    if not len(rows):
        return
    owners, comm = book.owners, activity.comm
    kind = comm.kind.astype(np.int64) if comm else np.full(len(rows), KINDS.index(OTHER))
    of_owner, combinations = encode_rows(codes[rows], kind)
    collectives = []
    for code, number in combinations:
        owner, name = owners[code], KINDS[number]
        synchronises = owner.work in (BACKWARD, ACCUMULATE) and name in SYNCHRONISE
        has_owner = owner.work != UNATTRIBUTED and not synchronises
        module = owner.module if has_owner else Module(f"({name})", COLLECTIVE)
        collectives.append(book.code(Owner(COLLECTIVE, module)))
    codes[rows] = np.array(collectives, np.int64)[of_owner]
    reducing = np.isin(kind, [KINDS.index(name) for name in REDUCING])
    _set_reduced(activity, marks, rows[reducing], codes, book)


def _set_reduced(
    activity: Activity, marks: Marks, rows: IntArray, codes: IntArray, book: _Book
) -> None:
    """Set the owners of the collectives (rows of operations) that reduce a module's gradients."""
    launched = activity.launch_starts[rows]
    rows = rows[np.argsort(launched, kind="stable")]
    launched = activity.launch_starts[rows]
    names = _open_on_thread(marks.ranges, activity.launcher_of(rows), launched)
    for row, module in zip(rows, find_bucket_owners(marks, names, launched), strict=True):
        if module is not None:
            codes[row] = book.code(Owner(COLLECTIVE, module))
