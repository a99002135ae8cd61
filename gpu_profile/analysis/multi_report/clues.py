"""Read the processes and the ends of collectives from a report's kernels, in one pass."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL
from gpu_profile.analysis.tables.comm_kernels import TOGETHER_KINDS, comm_kind

# Only strings that match are looked up in the table of communication kernels; few do.
_CANDIDATE = re.compile(r"reduce|gather|multimem", re.IGNORECASE)


@dataclass(frozen=True)
class EventTimes:
    """The first and last end (ns) of a report's kernels, their `count` and the `sum` of the ends.

    No two recordings have equal ones. `count` and `sum` are 0 where only the first and last time
    of other events were read; all is 0 without events.
    """

    first: int = 0
    last: int = 0
    count: int = 0
    sum: int = 0

    def with_ends(self, ends: IntArray) -> "EventTimes":
        """The same with more kernels."""
        if not len(ends):
            return self
        first, last = int(ends.min()), int(ends.max())
        return EventTimes(
            min(first, self.first) if self.count else first,
            max(last, self.last) if self.count else last,
            self.count + len(ends),
            self.sum + int(ends.sum()),
        )


NO_TIMES = EventTimes()


@dataclass(frozen=True, eq=False)
class Clues:
    """Facts from the kernels of a report, for ranks, clocks, and which run it is of.

    `processes`: the globalPids with kernels. `ends`: by kernel name, the sorted ends of the
    collectives of the process with most of them. `times`: of all kernels.
    """

    processes: tuple[int, ...]
    ends: Mapping[str, IntArray]
    times: EventTimes


@once_each
def read_clues(database: Database) -> Clues:
    """The clues of a report, read once and used for ranks, clocks and times."""
    name_ids, processes, times = _together(database), set[int](), NO_TIMES
    columns = [np.empty((3, 0), np.int64)]
    for rows in database.parts(KERNEL, "end", "globalPid", "demangledName"):
        processes.update(list_distinct(rows["globalPid"]))
        times = times.with_ends(rows["end"])
        chosen = is_among(rows["demangledName"], name_ids)
        columns.append(
            np.stack([rows[key][chosen] for key in ("end", "globalPid", "demangledName")])
        )
    ends = _load_ends(database, *np.concatenate(columns, axis=1))
    return Clues(tuple(sorted(processes)), ends, times)


def _together(database: Database) -> list[int]:
    """The ids of the names of collectives that end on all ranks at the same time."""
    candidates = np.array(database.ids(_CANDIDATE), np.int64)
    names = database.names(candidates)
    return [key for key, text in names.items() if comm_kind(text) in TOGETHER_KINDS]


def _load_ends(
    database: Database, end: IntArray, process: IntArray, name: IntArray
) -> dict[str, IntArray]:
    if not len(end):
        return {}
    processes, counts = np.unique(process, return_counts=True)
    of_process = process == processes[np.argmax(counts)]
    return {
        text: np.sort(end[of_process & (name == code)])
        for code, text in database.names(name).items()
    }
