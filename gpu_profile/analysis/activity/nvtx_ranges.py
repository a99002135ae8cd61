"""A process's NVTX ranges, and which of them was open when an operation was launched."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.nesting import list_changes, nest_intervals
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import integer, integer_or_none, text
from gpu_profile.analysis.store.database import MISSING, Columns, Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import (
    MARKS_DOMAIN,
    NVTX,
    NVTX_DOMAIN,
    NVTX_PUSH_POP,
    NVTX_START_END,
    pid_of,
    process_of,
    tid_of,
)
from gpu_profile.analysis.tables.statistics import encode_rows

NO_RANGE = -1
FOREVER = int(np.iinfo(np.int64).max)
_CALL_NUMBERS = re.compile(r", (seq|op_id) = \d+|, input_op_ids = .*$")
_OPERATOR = re.compile(r"^(aten|c10d|prims?|autograd)::\w+(,|$)|^\w+Backward\d+(,|$)|, sizes = \[")
"""Names of torch's operators and nodes of autograd: "aten::mm, sizes = [[8, 8], [8, 8]]"."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """NVTX ranges sorted by start. `thread` is nsys' globalTid; `name` indexes `names`.

    A name carries its domain, as "NCCL:ncclAllReduce", except in NVTX's default domain. A range
    that was never closed ends at FOREVER. `payload` is the integer of a range of --annotate (the
    number of a step), MISSING of any other range.
    """

    start: IntArray
    end: IntArray
    thread: IntArray
    domain: IntArray
    name: IntArray
    names: tuple[str, ...]
    payload: IntArray

    def pick(self, rows: IntArray) -> "Ranges":
        start, end, thread = self.start[rows], self.end[rows], self.thread[rows]
        columns = self.domain[rows], self.name[rows], self.names, self.payload[rows]
        return Ranges(start, end, thread, *columns)

    def called(self, name: str) -> "Ranges":
        """The ranges with this name; a leading ":" (nsys' default domain) is ignored."""
        bare_name = name.removeprefix(":")
        code = self.names.index(bare_name) if bare_name in self.names else NO_RANGE
        return self.pick(np.flatnonzero(self.name == code))

    def of_user(self) -> "Ranges":
        """The ranges of the default domain, without torch's operators. Libraries (NCCL, cuBLAS) use
        their own domains, and their ranges do not mark steps.
        """
        return self._user_ranges

    @cached_property
    def _user_ranges(self) -> "Ranges":
        ranges = self.of_domain(0)
        operators = np.array([bool(_OPERATOR.search(name)) for name in self.names], bool)
        if not operators.any():
            return ranges
        return ranges.pick(np.flatnonzero(~operators[ranges.name]))

    def of_domain(self, domain: int) -> "Ranges":
        """The ranges of one domain (an id of this process). Repeated calls return the same object,
        so that results cached for it are found again.
        """
        if domain not in self._domains:
            self._domains[domain] = self.pick(np.flatnonzero(self.domain == domain))
        return self._domains[domain]

    @cached_property
    def _domains(self) -> "dict[int, Ranges]":
        return {}


def load_ranges(database: Database, process: int) -> Ranges:
    """All push/pop and start/end ranges of one process (a globalPid)."""
    types = {"eventType": (NVTX_PUSH_POP, NVTX_START_END)}
    columns = ("start", "end?", "globalTid", "domainId?", "textId?")
    rows = database.load(NVTX, *columns, only=types, sort=False)
    codes, texts = database.texts(NVTX, "text", only=types)
    order = np.flatnonzero(process_of(rows["globalTid"]) == process)
    rows["end"] = np.where(rows["end"] == MISSING, FOREVER, rows["end"])
    # Of two ranges with one start the longer one is the outer range, so it comes first.
    order = order[np.lexsort((-rows["end"][order], rows["start"][order]))]
    rows["payload"] = _load_payloads(database, process, len(rows["start"]))
    rows = {key: values[order] for key, values in rows.items()}
    name, names = _name_ranges(database, process, codes[order], texts, rows)
    return Ranges(
        start=rows["start"],
        end=rows["end"],
        thread=rows["globalTid"],
        domain=np.maximum(rows["domainId"], 0),
        name=name,
        names=names,
        payload=rows["payload"],
    )


def _load_payloads(database: Database, process: int, size: int) -> IntArray:
    """The integer payloads of all ranges; read only if the process has marks of ours."""
    if MARKS_DOMAIN not in _load_domains(database, process).values():
        return np.full(size, MISSING)
    types = {"eventType": (NVTX_PUSH_POP, NVTX_START_END)}
    columns = ("start", "int64Value?", "uint64Value?")
    rows = database.load(NVTX, *columns, only=types, sort=False)
    return np.where(rows["int64Value"] == MISSING, rows["uint64Value"], rows["int64Value"])


def _name_ranges(
    database: Database, process: int, code: IntArray, texts: Sequence[str], rows: Columns
) -> tuple[IntArray, tuple[str, ...]]:
    """The index of each range's name, and the names in order of their first range."""
    registered, domains = database.names(rows["textId"]), _load_domains(database, process)
    codes, combinations = encode_rows(code, rows["textId"], rows["domainId"])
    first = np.zeros(len(combinations), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    labels = [
        _format_label(domains.get(domain, ""), texts[text] or registered[text_id])
        for text, text_id, domain in combinations
    ]
    names = tuple(dict.fromkeys(labels[index] for index in np.argsort(first).tolist()))
    place = {name: index for index, name in enumerate(names)}
    return np.array([place[label] for label in labels], np.int64)[codes], names


def _format_label(domain: str, text: str) -> str:
    """The name with its domain. The numbers of a call of a torch operator (emit_nvtx) are left
    out, because else each call would have a name of its own.
    """
    if ", op_id = " in text or ", seq = " in text:
        text = _CALL_NUMBERS.sub("", text)
    return f"{domain}:{text}" if domain else text


def _load_domains(database: Database, process: int) -> dict[int, str]:
    """The names of one process's domains by id. Domain ids are unique only within a process."""
    only = {"eventType": (NVTX_DOMAIN,)}
    columns = integer("globalTid"), integer_or_none("domainId?"), text("text?")
    rows = read_records(database, NVTX, *columns, integer_or_none("textId?"), only=only)
    domains = {}
    for thread, domain, name, name_id in rows:
        if domain is not None and thread & ~0xFFFFFF == process:
            key = name_id or 0
            domains[domain] = name or database.names(np.array([key]))[key]
    return domains


def normal_name(name: str) -> str:
    """The name with each number replaced by "#": `step 12` and `step 13` are both "step #", and so
    is `step #12`.
    """
    return re.sub(r"#?\d+", "#", name)


def find_innermost(ranges: Ranges, thread: IntArray, time: IntArray) -> IntArray:
    """The index of the innermost range open on the thread at each time, or NO_RANGE.

    PyTorch launches the backward pass from its own autograd threads while the range is open on the
    thread that called backward(). A thread without ranges of its own is therefore looked up on the
    process's main thread (its tid is the pid).
    """
    owners = np.array(list_distinct(ranges.thread), np.int64)
    main = owners[tid_of(owners) == pid_of(owners)]
    result = np.full(len(time), NO_RANGE)
    for launcher in list_distinct(thread):
        rows = np.flatnonzero(thread == launcher)
        owner = launcher if launcher in owners else (main[0] if len(main) else None)
        if owner is not None:
            result[rows] = _open_at(ranges, int(owner), time[rows])
    return result


def find_own_innermost(ranges: Ranges, thread: IntArray, time: IntArray) -> IntArray:
    """The index of the innermost range open on the thread itself at each time, or NO_RANGE."""
    result = np.full(len(time), NO_RANGE)
    for owner in list_distinct(thread):
        rows = np.flatnonzero(thread == owner)
        result[rows] = _open_at(ranges, owner, time[rows])
    return result


def _open_at(ranges: Ranges, owner: int, time: IntArray) -> IntArray:
    """The index of the innermost range of one thread at each time, or NO_RANGE."""
    begin, inner = _cut_segments(ranges, owner)
    return inner[np.searchsorted(begin, time, "right")]


@once_each
def _cut_segments(ranges: Ranges, owner: int) -> tuple[IntArray, IntArray]:
    """(times of changes, innermost range between them) of one thread."""
    rows = np.flatnonzero(ranges.thread == owner)
    edges, inner = list_changes(ranges.start[rows], ranges.end[rows])
    # the first one is for times before the first change
    return edges, np.r_[NO_RANGE, np.append(rows, NO_RANGE)[inner]]


@once_each
def find_parents(ranges: Ranges) -> IntArray:
    """The index of the range directly around each range on its own thread, or NO_RANGE."""
    result = np.full(len(ranges.start), NO_RANGE)
    for thread in list_distinct(ranges.thread):
        rows = np.flatnonzero(ranges.thread == thread)
        _, parent = nest_intervals(ranges.start[rows], ranges.end[rows])
        result[rows] = np.append(rows, NO_RANGE)[parent]
    return result
