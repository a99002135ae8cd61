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


@dataclass(frozen=True, eq=False)
class Clues:
    """Facts from the kernels of a report, for ranks and clocks.

    `processes`: the globalPids with kernels. `ends`: by kernel name, the sorted ends of the
    collectives of the process with most of them.
    """

    processes: tuple[int, ...]
    ends: Mapping[str, IntArray]


@once_each
def read_clues(database: Database) -> Clues:
    """The clues of a report, read once and used for both ranks and clocks."""
    name_ids, processes = _together(database), set[int]()
    columns = [np.empty((3, 0), np.int64)]
    for rows in database.parts(KERNEL, "end", "globalPid", "demangledName"):
        processes.update(list_distinct(rows["globalPid"]))
        chosen = is_among(rows["demangledName"], name_ids)
        columns.append(
            np.stack([rows[key][chosen] for key in ("end", "globalPid", "demangledName")])
        )
    return Clues(tuple(sorted(processes)), _load_ends(database, *np.concatenate(columns, axis=1)))


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
