"""Read the marks of pauses that a job's start-up module makes: Python stacks, garbage collections,
compilations.

Each is an NVTX mark of our domain. The lowest 40 bits of `int64Value` are the length in ns of the
time that it tells of, those above are how many us that had been over when the mark was made.
`category` is the kernel's number of its thread (0: the thread of the mark).
The text is `stack | FUNCTION "FILE" LINE | …` with the outermost frame first, `garbage collection`,
or `compilation | FUNCTION "FILE" LINE`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.intervals import Intervals
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import Flags, IntArray
from gpu_profile.analysis.host.frames import Frame, Stack, make_printable
from gpu_profile.analysis.store.cells import integer, integer_or_none, text
from gpu_profile.analysis.store.database import MISSING, Columns, Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import MARKS_DOMAIN, NVTX, NVTX_DOMAIN, NVTX_MARK, process_of

BETWEEN = " | "
STACK, GARBAGE, COMPILATION = "stack", "garbage collection", "compilation"
PERIOD_NS = 10_000_000
"""A mark of a longer time counts as so many samples of this length."""
_MOST_PERIODS = 6000  # a minute: what a damaged number can claim at most
_LATE_BIT = 40


@dataclass(frozen=True, eq=False)
class PauseMarks:
    """The marks in a report, sorted by thread and start. `name` indexes `names`."""

    start: IntArray
    end: IntArray
    thread: IntArray
    name: IntArray
    names: tuple[str, ...]

    def pick(self, kind: str) -> "PauseMarks":
        """The marks whose first word is this kind: STACK, GARBAGE or COMPILATION."""
        codes = [code for code, name in enumerate(self.names) if name.split(BETWEEN)[0] == kind]
        rows = np.flatnonzero(np.isin(self.name, codes))
        start, end, thread = self.start[rows], self.end[rows], self.thread[rows]
        return PauseMarks(start, end, thread, self.name[rows], self.names)

    @property
    def by_thread(self) -> Mapping[int, Intervals]:
        """The marked time of each thread (globalTid)."""
        return {
            thread: Intervals.union(self.start[rows], self.end[rows])
            for thread in list_distinct(self.thread)
            if len(rows := np.flatnonzero(self.thread == thread))
        }


_NONE = np.empty(0, np.int64)
NO_MARKS = PauseMarks(_NONE, _NONE, _NONE, _NONE, ())


@dataclass(frozen=True, order=True)
class Compilation:
    """One compilation of a function by torch.compile: ns of the report, globalTid."""

    start: int
    end: int
    thread: int
    function: Frame


@once_each
def load_pause_marks(database: Database) -> PauseMarks:
    """The marks of pauses of all processes; NO_MARKS without --annotate."""
    if not database.has(NVTX, "int64Value", "category"):
        return NO_MARKS
    columns = ("start", "globalTid", "category", "int64Value", "textId?", "domainId?")
    rows = database.load(NVTX, *columns, only={"eventType": (NVTX_MARK,)}, sort=False)
    ours = _is_ours(database, rows) & (rows["int64Value"] != MISSING)
    rows = {name: values[ours] for name, values in rows.items()}
    if not len(rows["start"]):
        return NO_MARKS
    named = np.where(rows["category"] > 0, rows["category"] & 0xFFFFFF, 0)
    thread = np.where(named > 0, process_of(rows["globalTid"]) | named, rows["globalTid"])
    ids, code = np.unique(rows["textId"], return_inverse=True)
    texts = database.names(ids)
    number = np.maximum(rows["int64Value"], 0)
    end = rows["start"] - (number >> _LATE_BIT) * 1000
    length = np.minimum(number & ((1 << _LATE_BIT) - 1), _MOST_PERIODS * PERIOD_NS)
    order = np.lexsort((end, thread))
    names = tuple(texts.get(number, "") for number in ids.tolist())
    end, thread, length, code = end[order], thread[order], length[order], code[order]
    return PauseMarks(end - length, end, thread, code.astype(np.int64), names)


def _is_ours(database: Database, rows: Columns) -> Flags:
    """Whether each row is of our domain. Ids of domains are unique within a process only."""
    columns = integer("globalTid"), integer_or_none("domainId?"), text("text?")
    only = {"eventType": (NVTX_DOMAIN,)}
    domains = read_records(database, NVTX, *columns, integer_or_none("textId?"), only=only)
    texts = database.names(np.array([key or 0 for *_, key in domains], np.int64))
    ours = np.zeros(len(rows["start"]), bool)
    process = process_of(rows["globalTid"])
    for thread, domain, name, key in domains:
        if domain is not None and (name or texts.get(key or 0)) == MARKS_DOMAIN:
            ours |= (process == thread & ~0xFFFFFF) & (rows["domainId"] == domain)
    return ours


def list_compilations(database: Database) -> tuple[Compilation, ...]:
    """What torch.compile compiled, in order of time, with each function's name and place."""
    marks = load_pause_marks(database).pick(COMPILATION)
    functions = {code: _parse_frames(name) for code, name in enumerate(marks.names)}
    columns = (marks.start, marks.end, marks.thread, marks.name)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        sorted(
            Compilation(start, end, thread, frames[-1])
            for start, end, thread, code in rows
            if (frames := functions[code])
        )
    )


def list_samples(database: Database) -> list[tuple[int, int, Stack]]:
    """(ns, globalTid, stack) for each period of each thread that has marks of its stacks.

    A thread that did not move has one mark for many periods. Its mark is made when it has moved,
    and so ends where the next mark's time begins. The first mark of a place is of one look at its
    end, however long ago the look before was: the thread may have come there just then.
    """
    marks = load_pause_marks(database).pick(STACK)
    stacks = [_parse_frames(name) if name.startswith(STACK) else () for name in marks.names]
    same = np.r_[marks.thread[1:] == marks.thread[:-1], False]
    end = np.where(same, np.minimum(marks.end, np.r_[marks.start[1:], 0]), marks.end)
    length = marks.end - marks.start
    counts = np.maximum(1, np.rint(length / PERIOD_NS).astype(np.int64))
    rows = np.repeat(np.arange(len(counts)), counts)
    back = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    stays = np.r_[False, same[:-1] & (marks.name[1:] == marks.name[:-1])][: len(counts)]
    back[~stays[rows]] = 0
    time, codes = end[rows] - back * PERIOD_NS, marks.name[rows]
    return [
        (at, thread, stacks[code])
        for at, thread, code in zip(
            time.tolist(), marks.thread[rows].tolist(), codes.tolist(), strict=True
        )
        if stacks[code]
    ]


def _parse_frames(message: str) -> Stack:
    return tuple(map(_parse_frame, message.split(BETWEEN)[1:]))


def _parse_frame(words: str) -> Frame:
    function, _, place = words.partition(' "')
    file, _, line = place.rpartition('" ')
    number = int(line) if line.isdecimal() and len(line) < 9 else 0
    return Frame(make_printable(function), make_printable(file), number)
