"""The processes of a report without GPU work: an API server, or a worker that was not recorded."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.nvtx_ranges import load_ranges
from gpu_profile.analysis.activity.serving.marks import read_mark
from gpu_profile.analysis.activity.steps.step_period import GRAPH_CALL
from gpu_profile.analysis.arrays.columns import is_among, list_distinct
from gpu_profile.analysis.arrays.memo import once_each
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.cells import integer, integer_or_none, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import NVTX, RUNTIME, pid_of, process_of, tid_of

_LAUNCHES = re.compile(GRAPH_CALL.pattern + r"|cu(da)?Launch(Cooperative)?Kernel")


@dataclass(frozen=True)
class OtherProcess:
    """A process without GPU work: `name` of its main thread, "" where unknown. `launches` (of
    kernels and graphs) and `marks` (of an engine's iterations) that it made nevertheless.
    """

    pid: int
    name: str
    launches: int
    marks: int

    def to_text(self) -> str:
        """For example "process 655 (VLLM::Worker_TP1)"."""
        return f"process {self.pid} ({self.name})" if self.name else f"process {self.pid}"


def list_other_processes(database: Database, working: Collection[int]) -> tuple[OtherProcess, ...]:
    """The processes that nsys followed but those with GPU work, `working` (globalPids), by their
    ids. It lists the names of all processes of a machine.
    """
    others = sorted(_find_followed(database) - {*working})
    if not others:
        return ()
    names, launches = _read_names(database), _count_launches(database)
    return tuple(
        OtherProcess(
            int(pid_of(np.array(process))),
            names.get(process, ""),
            launches.get(process, 0),
            _count_marks(database, process),
        )
        for process in others
    )


def _find_followed(database: Database) -> set[int]:
    """The processes of which the report holds events, or a message of nsys."""
    rows = read_records(database, "DIAGNOSTIC_EVENT", integer_or_none("globalPid?"))
    processes = {process for (process,) in rows if process is not None and process > 0}
    return processes | list_event_processes(database)


def list_event_processes(database: Database) -> set[int]:
    """The processes (globalPids) with CUDA calls or NVTX events."""
    marking = (part["globalTid"] for part in database.parts(NVTX, "globalTid"))
    return {*list_callers(database)}.union(*(list_distinct(process_of(part)) for part in marking))


@once_each
def list_callers(database: Database) -> list[int]:
    """The processes (globalPids) with CUDA calls."""
    threads = (list_distinct(part["globalTid"]) for part in database.parts(RUNTIME, "globalTid"))
    return list_distinct(process_of(np.array([*chain.from_iterable(threads)], np.int64)))


def _read_names(database: Database) -> dict[int, str]:
    """The name of each process's main thread; else of its program."""
    names = {
        process: path.rpartition("/")[2]
        for process, path in read_records(database, "PROCESSES", integer("globalPid"), text("name"))
    }
    rows = read_records(database, "ThreadNames", integer("globalTid"), integer("nameId"))
    texts = database.names(np.array([name for _, name in rows], np.int64))
    for thread, name in rows:
        of_thread = np.array(thread)
        if tid_of(of_thread) == pid_of(of_thread):
            names[int(process_of(of_thread))] = texts.get(name, "")
    return names


def _count_launches(database: Database) -> dict[int, int]:
    rows = database.load(RUNTIME, "globalTid", "nameId", sort=False)
    texts = database.names(rows["nameId"])
    launches = [code for code, name in texts.items() if _LAUNCHES.match(name)]
    return _count_by_process(rows["globalTid"][np.isin(rows["nameId"], launches)])


def _count_marks(database: Database, process: int) -> int:
    """The ranges of a process that mark an engine's iterations."""
    ranges = load_ranges(database, process)
    codes = [code for code, name in enumerate(ranges.names) if read_mark(name) is not None]
    return int(np.sum(is_among(ranges.name, codes)))


def _count_by_process(threads: IntArray) -> dict[int, int]:
    processes, counts = np.unique(process_of(threads), return_counts=True)
    return dict(zip(processes.tolist(), counts.tolist(), strict=True))
