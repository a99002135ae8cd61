"""nsys' table of kernels by the NVTX range that they were launched in."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.nsys_tables.shared.launches import load_launched
from gpu_profile.analysis.nsys_tables.shared.projection import ThreadRanges, split_by_thread
from gpu_profile.analysis.nsys_tables.shared.range_rows import STYLES, NvtxRanges, load_range_rows
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, MISSING, pid_of, tid_of
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.statistics import (
    Key,
    Samples,
    count_values,
    encode_rows,
    make_sortable,
    pool_samples,
    summarise_samples,
)
from gpu_profile.analysis.tables.summary import GROUPS, HOST_BY, UNKNOWN_RANK, compute_statistics
from gpu_profile.table import Cell, Column, Table

NO_RANGE = -1


@dataclass(frozen=True)
class RangeKernelPart:
    """Kernel durations by (rank,) range, style, pid, tid and kernel; `instances`: the number of
    ranges with such a kernel.
    """

    by: str
    samples: Samples
    instances: dict[Key, int]


def _load_part(database: Database, scope: Scope) -> RangeKernelPart:
    ranges = load_range_rows(database)
    ops = load_launched(database, (KERNEL,), ("demangledName",), unmatched=True)
    pairs = [_pair_kernels(own, ranges) for own in split_by_thread(ranges, ops)]
    lost = np.flatnonzero(ops["thread"] == MISSING)
    index = np.concatenate([np.full(len(lost), NO_RANGE), *(pair[0] for pair in pairs)])
    kernel = np.concatenate([lost, *(pair[1] for pair in pairs)])
    name, style = _of_range(ranges.name, index), _of_range(ranges.style, index)
    codes, combinations = encode_rows(
        name, style, ops["thread"][kernel], ops["demangledName"][kernel]
    )
    keys = _build_keys(database, ranges, combinations, scope)
    samples = count_values(keys, codes, (ops["end"] - ops["start"])[kernel])
    return RangeKernelPart(scope.by, samples, _count_instances(keys, codes, index))


def _pair_kernels(own: ThreadRanges, ranges: NvtxRanges) -> tuple[IntArray, IntArray]:
    """(range, kernel) for every kernel inside a range of one thread; NO_RANGE for others."""
    lengths = own.end - own.first
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    inside = own.ops[np.repeat(own.first, lengths) + within]
    free = own.list_uncovered()
    index = np.concatenate([np.repeat(own.ranges, lengths), np.full(len(free), NO_RANGE)])
    return index, np.concatenate([inside, free])


def _of_range(column: IntArray, index: IntArray) -> IntArray:
    return np.where(index == NO_RANGE, NO_RANGE, np.append(column, NO_RANGE)[index])


def _build_keys(
    database: Database, ranges: NvtxRanges, combinations: list[tuple[int, ...]], scope: Scope
) -> list[Key]:
    kernels = database.names(np.array([row[3] for row in combinations], np.int64))
    threads = np.array([row[2] for row in combinations], np.int64)
    owners = zip(pid_of(threads).tolist(), tid_of(threads).tolist(), strict=True)
    keys: list[Key] = []
    for (name, style, thread, kernel), (pid, tid) in zip(combinations, owners, strict=True):
        group = (scope.ranks.get(pid, UNKNOWN_RANK),) if scope.by else ()
        label = "" if name == NO_RANGE else ranges.names[name]
        owner = (None, None) if thread == MISSING else (pid, tid)
        keys.append((*group, label, STYLES.get(style, ""), *owner, kernels[kernel]))
    return keys


def _count_instances(keys: list[Key], codes: IntArray, index: IntArray) -> dict[Key, int]:
    is_inside = index != NO_RANGE
    _, pairs = encode_rows(codes[is_inside], index[is_inside])
    counts: dict[Key, int] = {}
    for code, _ in pairs:
        counts[keys[code]] = counts.get(keys[code], 0) + 1
    return counts


COLUMNS = (
    *map(Column, ("NVTX Range", "Style", "PID", "TID", "NVTX Inst", "Kern Inst")),
    Column("Total Time", "ns"),
    *(Column(name, "ns") for name in ("Avg", "Med", "Min", "Max", "StdDev")),
    Column("Kernel Name"),
)


def _merge_parts(parts: Sequence[RangeKernelPart]) -> Table:
    by = parts[0].by if parts else ""
    instances: dict[Key, int] = {}
    for part in parts:
        for key, count in part.instances.items():
            instances[key] = instances.get(key, 0) + count
    rows = sorted(
        summarise_samples(pool_samples(part.samples for part in parts)),
        key=lambda row: (*make_sortable(row.key[:-1]), -row.total, row.key[-1]),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            *row.key[:-1],
            instances.get(row.key, 0),
            row.count,
            row.total,
            *compute_statistics(row),
            row.key[-1],
        )
        for row in rows
    ]
    return Table("nvtx_kern_sum", (*GROUPS[by], *COLUMNS), tuple(cells))


NVTX_KERN_SUM = Analysis(
    "nvtx_kern_sum",
    _load_part,
    _merge_parts,
    HOST_BY,
    "kernels by the NVTX range that they were launched in",
)
