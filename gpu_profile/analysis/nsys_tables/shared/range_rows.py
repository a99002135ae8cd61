"""NVTX ranges as nsys' tables count them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.store.database import MISSING, Columns, Database
from gpu_profile.analysis.store.schema import (
    NVTX,
    NVTX_DOMAIN,
    NVTX_PUSH_POP,
    NVTX_START_END,
    process_of,
)
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.statistics import Key, encode_rows
from gpu_profile.analysis.tables.summary import (
    HOST_COLUMNS,
    Grouped,
    group_samples,
)

STYLES = {NVTX_PUSH_POP: "PushPop", NVTX_START_END: "StartEnd"}


@dataclass(frozen=True, eq=False)
class NvtxRanges:
    """Ranges in the order of the table. `names[name[i]]` is "domain:text", as nsys 2025.3 prints
    it.

    `row` is the number of the event in the table, which nsys uses as RangeId. A range that was
    never closed ends with the last event. `foreign`: the event names a thread for its end
    (endGlobalTid); nsys does not search such a range for calls.
    """

    row: IntArray
    start: IntArray
    end: IntArray
    style: IntArray
    thread: IntArray
    foreign: IntArray
    name: IntArray
    names: tuple[str, ...]


def load_range_rows(database: Database, styles: Iterable[int] = STYLES) -> NvtxRanges:
    """The ranges of these styles, of all processes of the report."""
    columns = ("start", "end?", "eventType", "globalTid", "endGlobalTid?", "domainId?", "textId?")
    rows = database.load(NVTX, *columns, sort=False)
    codes, texts = database.texts(NVTX, "text")
    end = np.where(rows["end"] == MISSING, _find_last_time(rows), rows["end"])
    keep = np.flatnonzero(np.isin(rows["eventType"], list(styles)))
    closed_rows = {name: values[keep] for name, values in rows.items()}
    domain = np.maximum(closed_rows["domainId"], 0)
    process = process_of(closed_rows["globalTid"])
    name, combinations = encode_rows(process, domain, codes[keep], closed_rows["textId"])
    foreign = closed_rows["endGlobalTid"] != MISSING
    numbers = (
        keep + 1,
        closed_rows["start"],
        end[keep],
        closed_rows["eventType"],
        closed_rows["globalTid"],
        foreign,
    )
    return NvtxRanges(*numbers, name, _load_names(database, combinations, texts))


def _find_last_time(rows: Columns) -> int:
    """The last time in the table, which nsys uses as the end of a range that was never closed."""
    if not len(rows["start"]):
        return 0
    return int(max(rows["start"].max(), rows["end"].max()))


def _load_names(
    database: Database, combinations: list[tuple[int, ...]], texts: list[str]
) -> tuple[str, ...]:
    domains = domain_names(database)
    registered = database.names(np.array([text_id for *_, text_id in combinations], np.int64))
    return tuple(
        f"{domains.get((process, domain), '')}:{texts[code] or registered[text_id]}"
        for process, domain, code, text_id in combinations
    )


def domain_names(database: Database) -> dict[tuple[int, int], str]:
    """Domain names by (globalPid, domainId); domain ids are unique only within a process."""
    only = {"eventType": (NVTX_DOMAIN,)}
    keys = database.load(NVTX, "globalTid", "domainId?", "textId?", only=only, sort=False)
    codes, texts = database.texts(NVTX, "text", only=only)
    names = database.names(keys["textId"])
    owners = process_of(keys["globalTid"]).tolist(), np.maximum(keys["domainId"], 0).tolist()
    labels = (
        texts[code] or names[int(key)] for code, key in zip(codes, keys["textId"], strict=True)
    )
    return dict(zip(zip(*owners, strict=True), labels, strict=True))


def load_durations(with_style: bool, database: Database, scope: Scope) -> Grouped:
    """Durations by name, of push-pop ranges; `with_style` by style and name, of all ranges."""
    styles = STYLES if with_style else (NVTX_PUSH_POP,)
    ranges = load_range_rows(database, styles)
    rows = {"globalTid": ranges.thread}
    label = partial(_label_rows, ranges.names, with_style)
    names = [ranges.style, ranges.name]
    return group_samples(rows, scope, ranges.end - ranges.start, HOST_COLUMNS, names, label)


def _label_rows(
    names: tuple[str, ...], with_style: bool, combinations: list[tuple[int, ...]]
) -> list[Key]:
    if with_style:
        return [(STYLES[style], names[name]) for style, name in combinations]
    return [(names[name],) for _, name in combinations]
