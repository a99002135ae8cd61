"""Table idle_gaps: idle time of each rank's GPU by cause, NVTX range and next API call."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from gpu_profile.analysis.activity.activity import NO_CALL, Activity
from gpu_profile.analysis.activity.cached import activities_of, compute_share
from gpu_profile.analysis.activity.idle.gaps import CAUSES, Gaps, find_gaps
from gpu_profile.analysis.arrays.types import IntArray
from gpu_profile.analysis.modules.gap_places import find_gap_places
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis, Scope
from gpu_profile.analysis.tables.statistics import encode_rows
from gpu_profile.table import Cell, Column, Table

COLUMNS = (
    Column("Rank"),
    Column("Cause"),
    Column("Range"),
    Column("Next Call"),
    Column("Count"),
    Column("Total", "ns"),
    Column("Med", "ns"),
    Column("Max", "ns"),
    Column("Longest At", "ns"),
    Column("Span", "%"),
)
Row = tuple[Cell, ...]


def collect_gaps(database: Database, scope: Scope) -> list[Row]:
    """The finished rows of one report's ranks; a rank is in one report only."""
    ranks = activities_of(database, scope)
    return list(chain.from_iterable(_build_rows(rank, scope.offset_ns) for rank in ranks))


def merge_gaps(parts: Sequence[Sequence[Row]]) -> Table:
    """All rows, the most idle time first.

    Range: the NVTX range, or with --annotate the module, that was open on the host in the middle of
    the gap. Next Call: launched the operation that ended the gap. Longest At: the start of the
    longest gap, on the run's clock.
    """
    rows = sorted(chain.from_iterable(parts), key=lambda row: (-int(row[5] or 0), row[0], row[3]))
    return Table("idle_gaps", COLUMNS, tuple(rows))


def _build_rows(activity: Activity, offset_ns: int) -> list[Row]:
    gaps = find_gaps(activity)
    if not len(gaps.start):
        return []
    span = activity.ops.end.max() - int(activity.ops.start[0])
    place, places = find_gap_places(activity)
    codes, combinations = encode_rows(
        gaps.cause.astype(np.int64), place, _find_next_calls(activity, gaps)
    )
    length, rows = gaps.end - gaps.start, list[Row]()
    # A stable sort of 16-bit integers takes linear time.
    narrow = np.int16 if len(combinations) <= np.iinfo(np.int16).max else np.int64
    order = np.argsort(codes.astype(narrow), kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(combinations) + 1))
    for number, (cause, name, code) in enumerate(combinations):
        chosen = order[edges[number] : edges[number + 1]]
        longest = chosen[np.argmax(length[chosen])]
        label = places[name].name or None
        total, middle = int(length[chosen].sum()), float(np.median(length[chosen]))
        at = int(gaps.start[longest]) + offset_ns
        numbers = (len(chosen), total, middle, int(length[longest]), at, compute_share(total, span))
        rows.append((activity.rank, CAUSES[cause], label, activity.names.get(code), *numbers))
    return rows


def _find_next_calls(activity: Activity, gaps: Gaps) -> IntArray:
    """The id of the name of the call that ended each gap, or NO_CALL."""
    call = activity.ops.call[gaps.next_op]
    if not len(activity.calls.name):
        return np.full(len(call), NO_CALL)
    return np.where(call == NO_CALL, NO_CALL, activity.calls.name[call])


IDLE_GAPS = Analysis(
    "idle_gaps",
    collect_gaps,
    merge_gaps,
    doc="idle gaps by cause, by the host's range and by the call that ended them",
    claims="derived: the cause of a gap, from the host's calls around it; the rest is measured",
)
