"""Find the rank of each process in a run's reports, from the first source that has all of them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from gpu_profile.analysis.arrays.columns import list_distinct
from gpu_profile.analysis.multi_report.clues import read_clues
from gpu_profile.analysis.multi_report.nccl_ranks import (
    Membership,
    find_nccl_ranks,
    read_memberships,
)
from gpu_profile.analysis.store.cells import integer, text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.rank_variables import RANK_VARIABLES, SIZE_VARIABLES
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import (
    CONTEXT,
    KERNEL,
    MEMCPY,
    MPI_TABLES,
    NVTX,
    OSRT,
    RUNTIME,
    pid_of,
)
from gpu_profile.analysis.store.target import read_hostname

FILE_RANK = re.compile(r"rank[-_.]?(\d+)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)")
_ENDINGS = re.compile(r"(\.sqlite|\.nsys-rep|\.gz)+$")
_WINDOW = re.compile(r"(.+)\.(\d+)")
_ADDRESS = re.compile(r"(^|\D\.|rank\d+\.)\d{1,3}(\.\d{1,3}){3}$")
UNKNOWN = -1
MOST_RANKS, DIGITS = 1_000_000, 7
"""Limits of a rank: the number in `rank20261122.sqlite` is a date."""


@dataclass(frozen=True)
class Process:
    """`ranks` by source name; `gpu` is a GPU's bus location or ordinal, to order processes by.

    `memberships`: those in NCCL's communicators that were initialised during the recording.
    """

    pid: int
    gpu: str
    ranks: Mapping[str, int]
    memberships: frozenset[Membership] = frozenset()


@dataclass(frozen=True)
class Identity:
    """The processes of one report and their ranks by source; nothing else of the environment.

    `world`: the largest number of ranks that the environment and NCCL tell; `told_world`: that of
    the environment alone, 0 without.
    """

    name: str
    host: str
    world: int
    processes: tuple[Process, ...]
    told_world: int = 0

    @property
    def memberships(self) -> frozenset[Membership]:
        return frozenset[Membership]().union(*(process.memberships for process in self.processes))

    @property
    def window(self) -> tuple[str, int]:
        """The name without the window's number, and that number: ("rank0.vm", 2), 0 for none."""
        return split_window(self.name)


@dataclass(frozen=True)
class Ranks:
    """`by_report`: rank by pid, for each report. `source` is e.g. "NCCL". `missing`: ranks without
    a report, below the number of ranks. `world`: the number of ranks that a report holds, else 0.
    """

    by_report: tuple[Mapping[int, int], ...]
    source: str
    missing: tuple[int, ...]
    world: int = 0


def read_identity(database: Database) -> Identity:
    """Read one report's identity. Processes without GPU work count only if none has any."""
    pids = _list_pids(database)
    environment, memberships = _read_environment(database), read_memberships(database)
    nccl = find_nccl_ranks(memberships)
    ranks_by_source = {
        "MPI": _read_mpi_ranks(database),
        "NCCL": {pid: rank for pid, (rank, _) in nccl.items()},
    }
    if len(pids) == 1:  # one process: the environment and file name are those of its rank
        ranks_by_source["environment"] = _read_numbers(pids[0], environment, RANK_VARIABLES)
        ranks_by_source["file name"] = _file_rank(pids[0], database.path.name, FILE_RANK)
        ranks_by_source["file number"] = _file_rank(pids[0], database.path.name, LAST_NUMBER)
    gpus = _read_gpu_places(database)
    sizes = [size for _, size in nccl.values()]
    told_world = _read_numbers(0, environment, SIZE_VARIABLES).get(0, 0)
    processes = (
        Process(
            pid,
            gpus.get(pid, ""),
            {name: by[pid] for name, by in ranks_by_source.items() if pid in by},
            memberships.get(pid, frozenset()),
        )
        for pid in pids
    )
    return Identity(
        database.path.name,
        read_hostname(database),
        max((*sizes, told_world)),
        tuple(processes),
        told_world,
    )


def split_window(name: str) -> tuple[str, int]:
    """The name without endings, and the window's number: ("rank0", 2) for "rank0.2.sqlite", as
    nsys --capture-range-end=repeat:N names it. The ".7" of "rank0.10.0.0.7" belongs to an address.
    """
    stem = _ENDINGS.sub("", name)
    match = None if _ADDRESS.search(stem) else _WINDOW.fullmatch(stem)
    return (match[1], int(match[2])) if match else (stem, 0)


def first_windows(reports: Sequence[Identity]) -> tuple[int, ...]:
    """For each report the index of the first window of the same processes, or its own index if it
    is alone. Windows share the name except for the number, the host, and the process ids.
    """
    reports_by_process: dict[tuple[object, ...], list[int]] = {}
    for index, report in enumerate(reports):
        stem, number = report.window
        pids = tuple(process.pid for process in report.processes)
        key = (stem, report.host, pids) if number and pids else (index,)
        reports_by_process.setdefault(key, []).append(index)
    firsts = list(range(len(reports)))
    for indexes in reports_by_process.values():
        first = min(indexes, key=lambda index: reports[index].window[1])
        for index in indexes:
            firsts[index] = first
    return tuple(firsts)


def assign_ranks(reports: Sequence[Identity]) -> Ranks:
    """Give every process a unique rank, which is the same in each of its windows."""
    firsts = first_windows(reports)
    unmatched = [index for index, first in enumerate(firsts) if index == first]
    candidates = _assign([reports[index] for index in unmatched])
    by_first = dict(zip(unmatched, candidates.by_report, strict=True))
    return replace(candidates, by_report=tuple(by_first[first] for first in firsts))


def _assign(reports: Sequence[Identity]) -> Ranks:
    """Ranks by NCCL's initialisation, MPI, the recorded environment, the file's name, or else the
    order of hosts and GPUs.
    """
    for source in ("NCCL", "MPI", "environment", "file name", "file number"):
        candidates = [
            {process.pid: process.ranks.get(source, UNKNOWN) for process in report.processes}
            for report in reports
        ]
        ranks = [rank for by_pid in candidates for rank in by_pid.values()]
        unique = UNKNOWN not in ranks and len(set(ranks)) == len(ranks) > 0
        if unique and (source != "file number" or sorted(ranks) == list(range(len(ranks)))):
            return _make_ranks(reports, candidates, source)
    return _make_ranks(reports, _by_place(reports), "host and GPU")


def _by_place(reports: Sequence[Identity]) -> list[dict[int, int]]:
    owners = sorted(
        (report.host, process.gpu, index, process.pid)
        for index, report in enumerate(reports)
        for process in report.processes
    )
    ranks_by_pid: list[dict[int, int]] = [{} for _ in reports]
    for rank, (_, _, index, pid) in enumerate(owners):
        ranks_by_pid[index][pid] = rank
    return ranks_by_pid


def _make_ranks(
    reports: Sequence[Identity], ranks_by_pid: list[dict[int, int]], source: str
) -> Ranks:
    present = {rank for by_pid in ranks_by_pid for rank in by_pid.values()}
    recorded_world = max((report.world for report in reports), default=0)
    world = max(recorded_world, max(present, default=-1) + 1)
    return Ranks(
        tuple(ranks_by_pid), source, tuple(sorted(set(range(world)) - present)), recorded_world
    )


def _list_pids(database: Database) -> list[int]:
    if pid := _only_process(database):
        return [pid]
    pids = read_clues(database).processes or _load_values(database, MEMCPY, "globalPid")
    if pids:
        return sorted(pid_of(np.array(pids)).tolist())
    for table in (*MPI_TABLES, NVTX, RUNTIME, OSRT):
        if pids := _load_values(database, table, "globalTid"):
            return sorted(set(pid_of(np.array(pids)).tolist()))
    return []


def _only_process(database: Database) -> int:
    """The pid of all kernels, read from the first ones, if only one process had a CUDA context;
    else 0, and all kernels must be read.
    """
    contexts = {pid for (pid,) in read_records(database, CONTEXT, integer("processId"))}
    # closing: threads decode ahead until the generator is closed, and one part is enough.
    with closing(database.parts(KERNEL, "globalPid")) as parts:
        first = set(pid_of(np.array(list_distinct(next(parts)["globalPid"]), np.int64)).tolist())
    return first.pop() if len(contexts) == 1 and contexts == first else 0


def _load_values(database: Database, table: str, column: str) -> tuple[int, ...]:
    return tuple(list_distinct(database.load(table, column, sort=False)[column]))


def _read_environment(database: Database) -> dict[str, str]:
    """The variables of RANK_VARIABLES and SIZE_VARIABLES, and no others."""
    variables = {}
    for name, value in read_records(database, "META_DATA_CAPTURE", text("name"), text("value")):
        key, _, setting = value.partition("=")
        if name.endswith("ENVIRONMENT_VARIABLE") and key in (*RANK_VARIABLES, *SIZE_VARIABLES):
            variables[key] = setting.strip('"')
    return variables


def _read_numbers(pid: int, environment: Mapping[str, str], names: Sequence[str]) -> dict[int, int]:
    values = (environment.get(name, "") for name in names)
    numbers = [int(value) for value in values if value.isdecimal() and len(value) < DIGITS]
    return {pid: numbers[0]} if numbers else {}


def _file_rank(pid: int, name: str, pattern: re.Pattern[str]) -> dict[int, int]:
    stem, _ = split_window(name)
    match = pattern.search(stem) or pattern.search(_ENDINGS.sub("", name))
    return {pid: int(match[1])} if match and len(match[1]) < DIGITS else {}


def _read_mpi_ranks(database: Database) -> dict[int, int]:
    rows = read_records(database, "MPI_RANKS", integer("globalTid"), integer("rank"))
    return {thread >> 24 & 0xFFFFFF: rank for thread, rank in rows}


def _read_gpu_places(database: Database) -> dict[int, str]:
    """The bus location of the first GPU of each process; sorts as a host's GPUs are numbered."""
    places = dict(read_records(database, "TARGET_INFO_GPU", integer("id"), text("busLocation?")))
    columns = integer("pid"), integer("cudaId"), integer("gpuId")
    devices = read_records(database, "TARGET_INFO_CUDA_DEVICE", *columns)
    by_device = {(pid, cuda): places.get(gpu, str(gpu)) for pid, cuda, gpu in devices}
    place_by_pid: dict[int, str] = {}
    contexts = read_records(database, CONTEXT, integer("processId"), integer("deviceId"))
    for pid, device in sorted(contexts):
        place_by_pid.setdefault(pid, by_device.get((pid, device), str(device)))
    return place_by_pid
